"""torch.compile: its graphs hold calls, which it does not trace; and it finds the backend."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import children

pytestmark = pytest.mark.process

TRACER = "names = []\nadd = names.append\n"
OLD_TRACER = "names = ['has no list that can be added to']\n"
SKIPPED = "['mdtensor', 'pyopencl', 'cupy']"

REGISTRY = """
_BACKENDS = {}

def register_backend(function, name):
    assert name not in _BACKENDS, "duplicate name"
    _BACKENDS[name] = function
"""

COMPILED = """
import numpy as np
import torch
import mdtensor as mdt

graphs, whole = [], []

def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward

a, b, out = torch.rand(5, 6), torch.rand(6, 7), torch.empty(5, 7)
plan = mdt.compile("ij,jk->ik", a, b)

@mdt.stencil
def difference(u):
    return u[1] - u[-1]

calls = {
    "einsum": lambda a: mdt.einsum("ij,jk->ik", a, b),
    "into a tensor": lambda a: mdt.einsum("ij,jk->ik", a, b, out=out),
    "reduce": lambda a: mdt.reduce("ij->i", a, f=lambda x: x * x),
    "stencil": lambda a: difference(a[0]),
    "plan": lambda a: plan(a, b),
}
for name, call in calls.items():
    torch.compiler.reset()
    graphs.clear()
    expected = call(a * 2).clone() + 1
    result = torch.compile(lambda a: call(a * 2) + 1, backend=backend)(a)
    assert type(result) is torch.Tensor, name
    assert torch.equal(result, expected), name
    assert len(graphs) <= 4, (name, graphs)  # what is before the call, and what is behind it
    try:
        torch.compile(lambda a: call(a * 2) + 1, backend=backend, fullgraph=True)(a)
        whole.append(name)
    except torch._dynamo.exc.Unsupported:
        pass
print(*whole)
"""


def said_by(program: str, *paths: Path) -> str:
    places = os.pathsep.join(map(str, (*paths, children.ROOT)))
    return children.run("-c", program, env={"PYTHONPATH": places}).out.strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder with what stands for torch and its tracer."""
    folder = tmp_path / "torch" / "_dynamo"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder.parent / "__init__.py").touch()
    (folder / "trace_rules.py").write_text(TRACER, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "order",
    ["import mdtensor, torch._dynamo.trace_rules", "import torch._dynamo.trace_rules, mdtensor"],
)
def test_the_tracer_is_told_whichever_is_imported_first(path: Path, order: str) -> None:
    program = f"{order}; print(torch._dynamo.trace_rules.names)"
    assert said_by(program, path) == SKIPPED


def test_torch_is_not_imported_for_that(path: Path) -> None:
    program = "import mdtensor, sys; mdtensor.einsum; print('torch' in sys.modules)"
    assert said_by(program, path) == "False"


def test_a_tracer_without_such_a_list_is_left_alone(path: Path) -> None:
    (path / "torch" / "_dynamo" / "trace_rules.py").write_text(OLD_TRACER, encoding="utf-8")
    program = (
        "import mdtensor, torch._dynamo.trace_rules as r; print(len(r.names), r.__spec__.name)"
    )
    assert said_by(program, path) == "1 torch._dynamo.trace_rules"


@pytest.mark.parametrize("first", ["mdtensor", "torch._dynamo.backends.registry"])
def test_the_backend_is_registered_whichever_is_imported_first(path: Path, first: str) -> None:
    folder = path / "torch" / "_dynamo" / "backends"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "registry.py").write_text(REGISTRY, encoding="utf-8")
    program = f"""
import {first}
import mdtensor, torch._dynamo.backends.registry as registry
print(*registry._BACKENDS)
"""
    assert said_by(program, path) == "mdtensor"


def test_an_entry_point_that_torch_has_read_is_left_alone(path: Path) -> None:
    folder = path / "torch" / "_dynamo" / "backends"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "registry.py").write_text(REGISTRY, encoding="utf-8")
    program = """
import torch._dynamo.backends.registry as registry
registry._BACKENDS["mdtensor"] = "an entry point"
import mdtensor
print(registry._BACKENDS)
"""
    assert said_by(program, path) == "{'mdtensor': 'an entry point'}"


def test_calls_stand_in_graphs_where_their_arguments_can() -> None:
    pytest.importorskip("torch")
    assert said_by(COMPILED).splitlines()[-1] == "einsum, into a tensor".replace(",", "")
