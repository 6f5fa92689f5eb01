"""Modules by the backend beside eager ones in float64, where torch is installed."""

from __future__ import annotations

import importlib.util

import pytest

from tests import children

MODULES = """
import copy, math, sys, warnings
import torch
import torch.nn as nn
import torch.nn.functional as F
import mdtensor as mdt
import mdtensor.torch

torch.set_default_device(sys.argv[1])
DTYPE = getattr(torch, sys.argv[2])
EPS = max(torch.finfo(DTYPE).eps, 1e-7)
# Where short floats round, an image's largest element may be another one, with another gradient.
is_wide = DTYPE is torch.float32
act, pool = (F.relu, F.max_pool2d) if is_wide else (F.silu, F.avg_pool2d)
torch.manual_seed(0)

class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.norm, self.groups, self.last = nn.BatchNorm2d(4), nn.GroupNorm(2, 8), nn.Linear(32, 10)
    def forward(self, x):
        x = pool(act(self.norm(self.conv1(x))), 3, 2, 1)
        x = F.avg_pool2d(act(self.groups(self.conv2(x))), 2)
        return self.last(x.flatten(1)).log_softmax(-1)

class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(width // self.heads)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return x + F.gelu(self.out((weights @ v).transpose(1, 2).reshape(x.shape)))

def close(found, due, scale):
    assert (found.double() - due).abs().max() <= 20 * EPS * scale, (found, due)

def largest(tensors):
    return max(t.abs().max() for t in tensors)

for module, x in ((CNN(), torch.randn(3, 1, 8, 8)), (Attention(), torch.randn(2, 5, 16))):
    module, x = module.to(DTYPE), x.to(DTYPE)
    wide = copy.deepcopy(module).double()
    compiled = torch.compile(module, backend="mdtensor", fullgraph=True)
    for _ in range(2):
        found, due = compiled(x), wide(x.double())
        close(found, due, due.abs().max())
        cotangent = torch.randn_like(found)
        module.zero_grad(), wide.zero_grad()
        found.backward(cotangent)
        due.backward(cotangent.double())
        scale = largest([p.grad for p in wide.parameters()])
        for one, other in zip(module.parameters(), wide.parameters()):
            close(one.grad, other.grad, scale)
    with mdt.tuning("record") as forward:
        found, _ = compiled(x), wide(x.double())  # both keep statistics
    with mdt.tuning("record") as backward:
        found.backward(cotangent)
    assert len(list(forward)) > 3 and len(list(backward)) > 3, (forward, backward)
    module.eval(), wide.eval()
    with torch.no_grad():
        close(compiled(x), wide(x.double()), 1 + wide(x.double()).abs().max())
        with mdt.tuning("record") as seen:
            compiled(x)
        assert len(list(seen)) > 3, seen
        report = mdtensor.torch.report(compiled, x, repeats=1)
        assert abs(sum(row.share for row in report) - 1) < 1e-6

@torch.compile(backend="mdtensor")
def changes(a):
    copied = a.clone()
    a.mul_(2)
    return copied.t() @ a

a = torch.randn(4, 4, dtype=DTYPE)
before = a.clone()
close(changes(a), before.double().t() @ (2 * before.double()), 10)
assert torch.equal(a, 2 * before)

product = torch.compile(lambda a: (a @ a.t()).relu(), backend="mdtensor", dynamic=True)
for n in (5, 6, 7, 7):
    a = torch.randn(n, 4, dtype=DTYPE)
    close(product(a), (a.double() @ a.double().t()).relu(), 10)
print("done")
"""

REDUCED_OVERHEAD = """
import copy, sys
import torch
import torch.nn as nn
import mdtensor as mdt
import mdtensor.torch
from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry

torch.set_default_device(sys.argv[1])
torch.manual_seed(0)
module = nn.Sequential(
    nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1), nn.Flatten(),
    nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 8),
)
compiled = torch.compile(module, backend="mdtensor", mode="reduce-overhead")
wide = copy.deepcopy(module).double()
optimizer = torch.optim.SGD(module.parameters(), 0.05)
arrays = "cupy" if sys.argv[1] == "cuda" else "numpy"
for step in range(240):
    if step in (30, 60, 90):
        registry.engine_for(arrays).settle(100)
    if step == 160:
        invalidation.clear()  # as better kernels do
    x = torch.randn(12, 1, 4, 4)
    wide.load_state_dict({name: p.double() for name, p in module.state_dict().items()})
    optimizer.zero_grad(), wide.zero_grad()
    loss, due = compiled(x).square().mean(), wide(x.double()).square().mean()
    loss.backward(), due.backward()
    assert abs(loss.item() - due.item()) < 1e-6, (step, loss, due)
    for one, other in zip(module.parameters(), wide.parameters()):
        assert (one.grad - other.grad).abs().max() < 1e-6, step
    optimizer.step()
with torch.no_grad():
    for turn in range(120):
        if turn in (20, 50, 80):
            registry.engine_for(arrays).settle(100)
        x = torch.randn(12, 1, 4, 4)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    report = mdtensor.torch.report(compiled, x, repeats=1)
    assert abs(sum(row.share for row in report) - 1) < 1e-6
if sys.argv[1] == "cuda":
    from torch._inductor.cudagraph_trees import get_manager
    captured = get_manager(0, create_if_none_exists=False).ids_to_funcs
    assert len(captured) == 3, len(captured)  # both passes, and one without gradients
for options in {"mode": "fastest"}, {"options": {"fast": True}}:
    try:
        mdtensor.torch.backend(None, [], **options)
    except mdt.errors.ArgumentError as error:
        print(error)
"""


@pytest.mark.process
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_graphs_that_are_captured_compute_the_same(device: str) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    assert children.run("-c", REDUCED_OVERHEAD, device).out.splitlines() == [
        "the backend has no mode 'fastest'",
        "  hint: one of 'default', 'reduce-overhead'",
        "the backend has no option 'options'",
        '  hint: torch.compile(model, backend="mdtensor")',
    ]


@pytest.mark.process
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_modules_and_their_gradients(device: str, dtype: str) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    assert children.run("-c", MODULES, device, dtype).out.strip() == "done"
