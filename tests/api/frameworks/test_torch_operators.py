"""Calls on torch's tensors: their gradients of any order, batches, and places in graphs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frameworks import autograd_calls, call_text, torch_operators
from mdtensor.errors import DeviceError, DTypeError, GradientError, IndexingError, ShapeError
from tests import children

torch: Any = pytest.importorskip("torch")
# Of what torch imports of its own.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LAYOUT = "NCHW,KCRS->NKPQ"


def randn(*shape: int, dtype: str = "float64", grad: bool = True) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    made = torch.randn(shape, generator=generator, dtype=torch.float64)
    return made.to(getattr(torch, dtype)).requires_grad_(grad)


@mdt.stencil(border="nearest")
def mean(u: Any) -> Any:
    return (u[-1] + u[0] * u[0] + u[1]) / 3


def product(a: Any, b: Any) -> Any:
    return mdt.einsum("ij,jk->ik", a, b)


def normalised(a: Any) -> Any:
    return mdt.softmax(a, axis=1)


# Each with what torch has for it, where it does.
CALLS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], Any]] = {
    "einsum": (product, ((3, 4), (4, 5)), lambda a, b: a @ b),
    "chain": (
        lambda a, b, c: mdt.einsum("ij,jk,kl->il", a, b, c),
        ((3, 4), (4, 5), (5, 2)),
        lambda a, b, c: a @ b @ c,
    ),
    "matmul": (mdt.matmul, ((2, 3, 4), (2, 4, 5)), lambda a, b: a @ b),
    "tensordot": (
        lambda a, b: mdt.tensordot(a, b, axes=1),
        ((3, 4), (4, 5)),
        lambda a, b: a @ b,
    ),
    "convolve": (mdt.convolve, ((9,), (3,)), None),
    "softmax": (normalised, ((3, 4),), lambda a: a.softmax(1)),
    "log_softmax": (mdt.log_softmax, ((3, 4),), lambda a: a.log_softmax(-1)),
    "logsumexp": (lambda a: mdt.logsumexp(a, axis=0), ((3, 4),), lambda a: a.logsumexp(0)),
    "layer_norm": (
        mdt.layer_norm,
        ((3, 4), (4,), (4,)),
        lambda a, w, b: torch.nn.functional.layer_norm(a, (4,), w, b),
    ),
    "rms_norm": (
        mdt.rms_norm,
        ((3, 4), (4,)),
        lambda a, w: torch.nn.functional.rms_norm(a, (4,), w, eps=1e-5),
    ),
    "sum": (lambda a: mdt.sum(a, axis=0), ((3, 4),), lambda a: a.sum(0)),
    "mean": (mdt.mean, ((3, 4),), lambda a: a.mean()),
    "var": (lambda a: mdt.var(a, axis=1), ((3, 4),), lambda a: a.var(1, correction=0)),
    "max": (lambda a: mdt.max(a, axis=1), ((3, 4),), lambda a: a.amax(1)),
    "max_pool": (
        lambda a: mdt.max_pool(a, (3, 3), stride=2, padding=1),
        ((1, 2, 6, 6),),
        lambda a: torch.nn.functional.max_pool2d(a, 3, 2, 1),
    ),
    "avg_pool": (
        lambda a: mdt.avg_pool(a, (3, 3), stride=2, padding=1),
        ((1, 2, 6, 6),),
        lambda a: torch.nn.functional.avg_pool2d(a, 3, 2, 1),
    ),
    "conv": (
        lambda a, w, b: mdt.conv(a, w, padding=1, bias=b, layout=LAYOUT),
        ((2, 3, 5, 5), (4, 3, 3, 3), (4,)),
        lambda a, w, b: torch.nn.functional.conv2d(a, w, b, padding=1),
    ),
    "conv with an epilogue": (
        lambda a, w: mdt.conv(a, w, stride=2, layout=LAYOUT, epilogue="silu"),
        ((1, 2, 6, 6), (3, 2, 3, 3)),
        lambda a, w: torch.nn.functional.silu(torch.nn.functional.conv2d(a, w, stride=2)),
    ),
    "cross_entropy": (
        lambda a: mdt.cross_entropy(a, torch.tensor([0, 3, -2])),
        ((3, 4),),
        lambda a: torch.nn.functional.cross_entropy(a, torch.tensor([0, 3, 2])),
    ),
    "reduce": (
        lambda a: mdt.reduce("ij->i", a, combine="logaddexp"),
        ((3, 4),),
        lambda a: a.logsumexp(1),
    ),
    "scan": (
        lambda a: mdt.scan("ij->ij", a, combine={"j": "add"}),
        ((3, 4),),
        lambda a: a.cumsum(1),
    ),
    "stencil": (mean, ((7,),), None),
    "filter": (lambda a: mdt.ndimage.gaussian_filter(a, 1.0), ((6, 6),), None),
    "lazy": (
        lambda a, b: (mdt.lazy(a) * b + 1).sum(axis=0).evaluate(),
        ((3, 4), (3, 4)),
        lambda a, b: (a * b + 1).sum(0),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_front_end_has_gradients(name: str) -> None:
    call, shapes, due = CALLS[name]
    given = tuple(randn(*shape) for shape in shapes)
    found = call(*given)
    assert type(found) is torch.Tensor
    if due is not None:
        torch.testing.assert_close(found, due(*given), rtol=1e-11, atol=1e-12)
    # Another kernel may have compiled meanwhile, which rounds otherwise.
    torch.autograd.gradcheck(call, given, nondet_tol=1e-10)
    torch.autograd.gradgradcheck(call, given, atol=1e-5, nondet_tol=1e-10)


def test_what_torch_does_with_functions() -> None:
    x, weights = randn(5, 3, 4, grad=False), randn(3, 4, grad=False)
    func = torch.func

    def loss(softmax: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda a: (softmax(a) * weights).sum()

    ours, due = loss(normalised), loss(lambda a: a.softmax(1))
    for found, expected in (
        (func.vmap(normalised)(x), x.softmax(2)),
        (func.vmap(product, in_dims=(1, None))(x, weights.T), (x @ weights.T).movedim(1, 0)),
        (func.grad(ours)(x[0]), func.grad(due)(x[0])),
        (func.vmap(func.grad(ours))(x), func.vmap(func.grad(due))(x)),
        (func.jacfwd(ours)(x[0]), func.jacrev(due)(x[0])),
        (func.hessian(ours)(x[0]), func.hessian(due)(x[0])),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    jacobian = torch.autograd.functional.jacobian
    torch.testing.assert_close(
        jacobian(normalised, x[0], vectorize=True), jacobian(lambda a: a.softmax(1), x[0])
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_plain_tensors_are_read_within_functions_of_torch_func(dtype: torch.dtype) -> None:
    x, weights, scale = (randn(*shape, grad=False).to(dtype) for shape in ((3, 4), (4, 5), (3, 5)))

    def beside(a: torch.Tensor) -> torch.Tensor:
        return mdt.einsum("ij,jk->ik", a, weights)

    def apart(a: torch.Tensor) -> torch.Tensor:
        return mdt.einsum("ij,jk->ik", x, weights) * a

    tight = {"rtol": 1e-2, "atol": 1e-1} if dtype == torch.bfloat16 else {}
    for _ in range(2):
        found = torch.func.grad(lambda a: (beside(a) * scale).sum())(x)
        torch.testing.assert_close(found, scale @ weights.T, **tight)
        found = torch.func.grad(lambda a: apart(a).sum())(scale)
        torch.testing.assert_close(found, x @ weights, **tight)
        torch.testing.assert_close(torch.func.jvp(beside, (x,), (x,))[1], x @ weights, **tight)


@pytest.mark.parametrize("before", [lambda a: a, torch.exp, lambda a: a[:2]])
def test_gradients_of_outer_functions_pass_inner_ones(before: Callable[[Any], Any]) -> None:
    """A tensor that only the outer function differentiates looks plain to the inner one."""
    x, inner = randn(3, 4, grad=False), randn(2, grad=False)

    def outer(softmax: Callable[[Any], Any]) -> Any:
        def loss(a: Any) -> Any:
            weighted = (softmax(before(a)) ** 2).sum()
            return torch.func.grad(lambda b: weighted * b.sum())(inner).sum()

        return torch.func.grad(loss)(x)

    expected = outer(lambda a: a.softmax(-1))
    for _ in range(2):
        torch.testing.assert_close(outer(mdt.softmax), expected, rtol=1e-10, atol=1e-12)


def test_functional_tensors_are_read_with_what_was_written_to_them() -> None:
    def written(summed: Callable[[Any], Any]) -> Any:
        def function(a: Any) -> Any:
            b = a + 0
            b.view(-1).mul_(2)
            return summed(b)

        return torch.func.functionalize(function)(randn(3, 4, grad=False).abs() * 0 + 1)

    for _ in range(2):
        assert written(mdt.sum) == 24


def test_a_tangent_goes_with_its_tensor() -> None:
    forward = torch.autograd.forward_ad
    a, b, tangent = randn(3, 4, grad=False), randn(4, 5, grad=False), randn(3, 4, grad=False)
    for _ in range(3):
        mdt.einsum("ij,jk->ik", a, b)
        with forward.dual_level():
            found = mdt.einsum("ij,jk->ik", forward.make_dual(a, tangent), b)
            torch.testing.assert_close(forward.unpack_dual(found).tangent, tangent @ b)


def test_what_is_negated_when_it_is_read_is_a_tensor_too() -> None:
    a, b = torch.randn(3, 4, dtype=torch.complex128).conj().imag, randn(4, 5, grad=False)
    out = torch.empty(3, 5, dtype=torch.float64)
    for _ in range(3):
        torch.testing.assert_close(mdt.einsum("ij,jk->ik", a, b), a @ b)
        assert mdt.einsum("ij,jk->ik", a, b, out=out) is out
        torch.testing.assert_close(out, a @ b)


def test_conjugated_and_negated_tensors_are_read_by_lazy_arrays() -> None:
    z = torch.randn(3, 4, dtype=torch.complex128, requires_grad=True)
    x = z.conj().imag
    for given in (x, x.detach()):
        torch.testing.assert_close(mdt.softmax(given, axis=1), given.softmax(1))
    torch.testing.assert_close(mdt.sum(z.detach().conj(), axis=0), z.detach().conj().sum(0))
    with torch.no_grad():
        torch.testing.assert_close(mdt.einsum("ij->i", x), x.sum(1))


def test_what_is_written_is_no_longer_what_a_gradient_saved() -> None:
    a, written = randn(3, 3), torch.ones(3, 3, dtype=torch.float64)
    for call in range(4):  # made in full, by its launch, by the built-in function
        found = (a * written).sum()
        version = written._version
        mdt.matmul(a.detach(), a.detach(), out=written)
        assert written._version > version, call
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            found.backward()


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning")
def test_calls_are_traced_by_modes_of_torch() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    x, tangent = randn(4, 5, grad=False), randn(5, 4, grad=False).T
    for _ in range(4):  # until the built-in function knows the call
        normalised(x)
    _, by_tangent = torch.func.linearize(normalised, x)
    due = torch.func.jvp(lambda a: a.softmax(1), (x,), (tangent,))[1]
    torch.testing.assert_close(by_tangent(tangent), due)
    torch.testing.assert_close(make_fx(normalised)(x)(tangent), tangent.softmax(1))


def test_a_compiled_function_takes_other_sizes() -> None:
    compiled = torch.compile(normalised, backend="eager", fullgraph=True)
    for rows in (5, 6, 7):
        x = randn(rows, 3, grad=False)
        torch.testing.assert_close(compiled(x), x.softmax(1))


def test_positions_keep_their_axes_on_tracked_tensors() -> None:
    x = randn(3, 7)
    found = mdt.argmax(x, axis=1, keepdims=True)
    torch.testing.assert_close(found, x.argmax(1, keepdim=True))
    batched = torch.vmap(lambda a: mdt.argmin(a, axis=0, keepdims=True))(x.detach())
    torch.testing.assert_close(batched, x.argmin(1, keepdim=True))


def test_what_does_not_vary_has_no_gradient_of_a_deviation() -> None:
    x = torch.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(mdt.std(x, axis=1).sum(), (x,))
    (due,) = torch.autograd.grad(x.std(1, correction=0).sum(), (x,))
    torch.testing.assert_close(found, due)


def test_the_operator_is_what_torch_asks_for() -> None:
    held = []
    computed = call_text.held_as_text

    def watched(program: Any) -> Any:
        held.append(computed(program))
        return held[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mdtensor.api.frameworks.autograd_calls.held_as_text", watched)
        a, b = randn(2, 3), randn(3, 7)  # of which no other test multiplies
        product(a, b)
    text, call = held[0].text, torch_operators.register().call
    back = call_text.pullback_text(text, 2, [0, 1], [0])
    c = randn(2, 7)
    for said, tensors in (
        (text, [a, b]),
        (back, [a, b, c, c]),
        (call_text.batched_text(text, [True, False]), [randn(6, 2, 3), b]),
    ):
        torch.library.opcheck(call.default, (said, tensors))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_calls_stand_in_graphs(backend: str) -> None:
    difference = mdt.torch.operator(mean)

    def network(images: Any, filters: Any, scores: Any) -> Any:
        found = mdt.conv(images, filters, padding=1, layout=LAYOUT).relu()
        pooled = mdt.max_pool(found, (2, 2)).mean((2, 3))
        return difference(mdt.softmax(mdt.einsum("nk,kc->nc", pooled, scores)).sum(0)).sum()

    given = randn(2, 3, 6, 6), randn(4, 3, 3, 3), randn(4, 5)
    compiled = torch.compile(network, fullgraph=True, backend=backend)
    found, due = compiled(*given), network(*given)
    torch.testing.assert_close(found, due)
    for ours, expected in zip(
        torch.autograd.grad(found, given), torch.autograd.grad(due, given), strict=True
    ):
        torch.testing.assert_close(ours, expected)


def test_results_of_graphs_lie_as_their_images() -> None:
    images = randn(2, 3, 6, 6).detach().to(memory_format=torch.channels_last)
    images.requires_grad_()
    filters = randn(4, 3, 3, 3)

    def network(images: Any, filters: Any) -> Any:
        return mdt.conv(images, filters, padding=1, layout=LAYOUT).sin()

    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    found, due = compiled(images, filters), network(images, filters)
    assert (
        found.stride() == due.stride() == due.contiguous(memory_format=torch.channels_last).stride()
    )
    torch.testing.assert_close(found, due)
    for ours, expected in zip(
        torch.autograd.grad(found.sum(), (images, filters)),
        torch.autograd.grad(due.sum(), (images, filters)),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected)


def test_shapes_are_known_without_elements() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        a = torch.empty(3, 4)
        assert mdt.softmax(a).shape == (3, 4)
        assert mdt.reduce("ij->i", a, combine="argmax").dtype == torch.int64


def test_types_stay() -> None:
    for dtype in ("bfloat16", "float16", "float32"):
        a, b = randn(3, 4, dtype=dtype), randn(4, 5, dtype=dtype)
        found = product(a, b)
        assert found.dtype == a.dtype
        torch.testing.assert_close(found.double(), a.double() @ b.double(), rtol=0.01, atol=0.02)
        for_a, for_b = torch.autograd.grad(found.sum(), (a, b))
        assert for_a.dtype == for_b.dtype == a.dtype
        due = b.detach().double().sum(1).expand(3, 4)
        torch.testing.assert_close(for_a.double(), due, rtol=0.01, atol=0.02)
        assert mdt.softmax(a).dtype == a.dtype


def test_a_tensor_stays_where_nobody_asks_for_a_gradient() -> None:
    a, b = randn(3, 4), randn(4, 5)
    with torch.no_grad():
        found = product(a, b)
    assert not found.requires_grad
    torch.testing.assert_close(found, (a @ b).detach())


def test_plans_have_gradients() -> None:
    a, b = randn(3, 4), randn(4, 5)
    plan = mdt.compile("ij,jk->ik", a.detach(), b.detach())
    torch.testing.assert_close(plan(a, b), a @ b)
    (found,) = torch.autograd.grad(plan(a, b).sum(), (a,))
    torch.testing.assert_close(found, b.detach().sum(1).expand(3, 4))
    with pytest.raises(ShapeError, match="not what the plan was made for"):
        plan(randn(4, 4), b)


def test_what_torch_cannot_follow_is_refused() -> None:
    a = randn(3, 4)
    with pytest.raises(GradientError, match="out= is written, and no gradient goes through it"):
        mdt.sum(a, axis=0, out=torch.empty(4, dtype=torch.float64))
    with pytest.raises(GradientError, match="out= is written"):
        mdt.sum(a.detach(), axis=0, out=randn(4))
    with pytest.raises(GradientError, match="this call of correlate does more to tensors"):
        mdt.ndimage.correlate(a.detach(), randn(3, 3))
    with pytest.raises(IndexingError, match="label 7, where there are 4 classes"):
        mdt.cross_entropy(a, torch.tensor([0, 1, 7]))
    with pytest.raises(DTypeError, match="it is sparse_coo"):
        mdt.sum(a.detach().to_sparse().requires_grad_())
    with pytest.raises(DeviceError, match="tensors on cpu, meta in one call"):
        product(a, torch.empty(4, 5, device="meta", requires_grad=True))


def test_functions_with_torchs_layouts() -> None:
    image, filters, bias = randn(1, 2, 6, 6), randn(3, 2, 3, 3), randn(3)
    conv2d = torch.nn.functional.conv2d
    due = conv2d(image, filters, bias, stride=2, padding=(1, 0))
    found = mdt.torch.conv(image, filters, bias, stride=2, padding=(1, 0))
    torch.testing.assert_close(found, due)
    due = torch.nn.functional.conv_transpose2d(image, randn(2, 3, 3, 3), stride=2)
    found = mdt.torch.conv(image, randn(2, 3, 3, 3), stride=2, transposed=True)
    torch.testing.assert_close(found, due)
    with pytest.raises(ShapeError, match="the image has 2 axes"):
        mdt.torch.conv(randn(3, 4), randn(4, 5))
    torch.testing.assert_close(mdt.torch.scan("ij->ij", bias[None], dim="j"), bias[None].cumsum(1))


def test_computations_go_with_what_holds_them() -> None:
    made = call_text.Held(mdt.compile("i->", mdt.spec((3,))).program)
    assert call_text.held_by(call_text.pullback_text(made.text, 1, [0], [0])) is made
    count = len(call_text._held)
    del made
    assert len(call_text._held) == count - 1


def test_arrays_may_stand_beside_tensors() -> None:
    a, b = randn(3, 4), np.arange(20.0).reshape(4, 5)
    torch.testing.assert_close(product(a, b), a @ torch.from_numpy(b))


@pytest.mark.process
def test_the_checks_of_torch() -> None:
    assert "0 failed" in children.run("-m", "bench.torch_ops", "--quick").out


def test_which_tensors_are_the_same_one_counts() -> None:
    x, y = torch.arange(3.0, requires_grad=True), torch.ones(3, requires_grad=True)
    for a, b in ((x, x), (x, y), (y, x), (y, y), (x, x)):
        assert mdt.einsum("i,i->", a, b).item() == (a * b).sum().item()
    pair = mdt.einsum("i,i->", x, x)
    np.testing.assert_array_equal(torch.autograd.grad(pair, x)[0], [0.0, 2.0, 4.0])


def test_a_call_of_several_programs_is_one_operator_and_known_by_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, 2, -1, 3, 3])
    ran: list[str] = []
    call = torch_operators.call
    monkeypatch.setattr(
        torch_operators, "call", lambda text, given: (ran.append(text), call(text, given))[1]
    )
    loss = mdt.cross_entropy(scores, labels)
    assert len(ran) == 1
    functional = torch.nn.functional
    wanted = functional.cross_entropy(scores, labels % 5)
    np.testing.assert_allclose(loss.item(), wanted.item(), rtol=1e-12)
    found, due = (torch.autograd.grad(each, scores)[0] for each in (loss, wanted))
    np.testing.assert_allclose(found, due, rtol=1e-10, atol=1e-12)
    del ran[:]

    def made(*_: Any) -> Any:
        raise AssertionError("the front end is made anew")

    monkeypatch.setattr(autograd_calls, "_TensorCall", made)
    other = torch.tensor([1, 1, 1, 0, 0, 0])
    again = mdt.cross_entropy(scores, other)
    np.testing.assert_allclose(
        again.item(), torch.nn.functional.cross_entropy(scores, other).item()
    )
    with pytest.raises(IndexingError, match="label 5, where there are 5 classes"):
        mdt.cross_entropy(scores, other + 4)
    assert len(ran) == 1


def test_batches_of_the_first_vmap_are_known_in_other_threads() -> None:
    """As those are that compute gradients on a GPU, where the level of the vmap is not."""
    of_first_vmap: Any = pytest.importorskip("torch._vmap_internals")._vmap
    held = call_text.held_call(
        mdt.einsum, "ij,jk->ik", mdt.spec((3, 4), "f8"), mdt.spec((4, 5), "f8")
    )
    b = randn(4, 5, grad=False)

    def elsewhere(a: Any) -> Any:
        found: list[Any] = []
        thread = threading.Thread(
            target=lambda: found.extend(torch_operators.register().call(held.text, [a, b]))
        )
        thread.start()
        thread.join()
        return found[0]

    a = randn(2, 6, 3, 4, grad=False)
    torch.testing.assert_close(of_first_vmap(elsewhere)(a[0]), a[0] @ b)
    torch.testing.assert_close(of_first_vmap(of_first_vmap(elsewhere))(a), a @ b)
