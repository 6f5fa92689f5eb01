"""Right calls of every public function, to begin with, and what goes wrong in them."""

from __future__ import annotations

import inspect
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from typer.testing import CliRunner

import mdtensor as mdt
from mdtensor.api.cli import main
from mdtensor.directive import (
    Buffer,
    add,
    char,
    combine_ops,
    f_mul,
    fp32,
    fp64,
    inp,
    int64,
    maximum,
    out,
    pw_custom_func,
)
from tests.api.malformed.odd import ANYTHING, NUMBERS, WORDS, OwnError, as_callers, odd, odd_key


@dataclass(frozen=True)
class Call:
    """A function with its arguments; `name` says which function."""

    name: str
    function: Callable[..., Any]
    args: Sequence[Any] = ()
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self) -> Any:
        return self.function(*self.args, **self.named)


# --- functions that callers write ----------------------------------------------------------------


def product(x: Any, y: Any) -> Any:
    return x * y


def total(lhs: Any, rhs: Any) -> Any:
    return lhs + rhs


def both(lhs: Any, rhs: Any) -> Any:
    return lhs[0] + rhs[0], lhs[1] * rhs[1]


def neighbours(u: Any) -> Any:
    return u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]


def weighted(u: Any, c: Any) -> Any:
    return c * (u[-1, 0] - 2 * u[0, 0] + u[1, 0])


def advanced(u: Any, v: Any) -> Any:
    return u[0, 1] - v[0, 0], u[0, 0]


def differences(u: Any, axis: Any, output: Any, mode: Any, cval: Any) -> Any:
    return mdt.ndimage.correlate1d(u, [-1, 0, 1], axis, output, mode, cval)


def matvec(w: Any, M: Any, v: Any) -> None:
    for i in range(M.shape[0]):
        for k in range(len(v)):
            w[i] = M[i, k] * v[k]


def doubled(y: Any, x: Any) -> None:
    for i in range(len(x)):
        y[i] = 2 * x[i]


def summed(y: Any, x: Any) -> Any:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i] += x[i, j]
    return y


def program(types: Sequence[Any], sizes: Any, function: Any, operators: Any, places: Any) -> Any:
    def views() -> Any:
        w, M, v = places
        return (
            mdt.out_view[types[0]](w=w),
            mdt.md_hom[sizes](function, operators),
            mdt.inp_view[types](M=M, v=v),
        )

    return mdt.mdh()(views)


# --- arrays --------------------------------------------------------------------------------------


def array(*shape: int, dtype: str = "f4") -> np.ndarray:
    count = int(np.prod(shape, dtype=int))
    return (np.arange(count) % 5 + 1).reshape(shape).astype(dtype)


def some(rng: random.Random, options: Mapping[str, Any]) -> dict[str, Any]:
    """A few of the options that a function has."""
    names = rng.sample([*options], rng.randint(0, min(3, len(options))))
    return {name: options[name] for name in names}


# --- calls ---------------------------------------------------------------------------------------


def _einsum(rng: random.Random) -> Call:
    text, *shapes = rng.choice(
        [
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("ij,jk", (2, 3), (3, 4)),
            ("i,i->", (3,), (3,)),
            ("ij->ji", (2, 3)),
            ("ii->i", (3, 3)),
            ("ij->", (2, 3)),
            ("...i,...i->...", (2, 3), (2, 3)),
            ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
            ("i h+r, r -> i h", (2, 5), (2,)),
            ("2h+r c, r c -> h", (8, 3), (3, 3)),
            ("ij,jk->ik; k", (2, 3), (3, 4), (4,)),
        ]
    )
    options = {
        "dtype": "f8",
        "order": "C",
        "casting": "same_kind",
        "optimize": rng.choice((True, "greedy", ["einsum_path", (0, 1)], ("greedy", 10))),
        "acc_dtype": "f8",
        "precision": "tf32",
        "semiring": "min_plus",
        "f": product,
        "combine": "add",
        "extents": {"i": 2},
        "out": array(2, 4),
    }
    named = some(rng, options)
    if ";" in text:
        named["epilogue"] = total
    return Call("einsum", mdt.einsum, (text, *(array(*shape) for shape in shapes)), named)


def _interleaved(rng: random.Random) -> Call:
    args = (array(2, 3), [0, 1], array(3, 4), [1, 2], [0, 2])
    return Call("einsum", mdt.einsum, args, some(rng, {"optimize": True, "out": array(2, 4)}))


def _einsum_path(rng: random.Random) -> Call:
    args = ("ij,jk,kl->il", array(2, 3), array(3, 4), array(4, 2))
    path = rng.choice((True, "greedy", "optimal", ["einsum_path", (0, 1), (0, 1)], ("greedy", 9)))
    return Call("einsum_path", mdt.einsum_path, args, {"optimize": path})


def _tensordot(rng: random.Random) -> Call:
    axes = rng.choice((1, 2, ([1, 2], [1, 0]), ((-1,), (0,)), (2, 0)))
    kind = rng.choice(("f4", "f4", "O", "i8"))
    return Call(
        "tensordot", mdt.tensordot, (array(2, 3, 4, dtype=kind), array(4, 3, 5, dtype=kind), axes)
    )


_REDUCTIONS = {
    "f": abs,
    "identity": 0,
    "dtype": "f8",
    "acc_dtype": "f8",
    "extents": {"i": 2},
    "check": True,
}


def _reduce(rng: random.Random) -> Call:
    text, *shapes = rng.choice(
        [
            ("ij->i", (2, 3)),
            ("ij->", (2, 3)),
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("h+r, r -> h", (5,), (2,)),
            ("ij,j->i; i", (2, 3), (3,), (2,)),
        ]
    )
    combine = rng.choice(
        ["add", "max", "argmin", np.minimum, total, {"j": "add"}, {"j": mdt.ps("add")}, mdt.cc]
    )
    named = {**some(rng, _REDUCTIONS | {"out": array(2)}), "combine": combine}
    if len(shapes) == 2:
        named["f"] = product
    if ";" in text:
        named["epilogue"] = rng.choice((total, "bias", "relu"))
    return Call("reduce", mdt.reduce, (text, *(array(*shape) for shape in shapes)), named)


def _records(rng: random.Random) -> Call:
    people = np.zeros(3, [("name", "S8"), ("born", "i4")])
    f = rng.choice(
        [lambda p: p["born"], lambda p: p.name == b"x", lambda p: (p["born"], p["born"])]
    )
    return Call("reduce", mdt.reduce, ("i->", people), {"f": f, "combine": "add"})


def _scan(rng: random.Random) -> Call:
    named = some(rng, _REDUCTIONS | {"exclusive": True, "reverse": True, "out": array(2, 3)})
    named["combine"] = rng.choice(("add", "max", total, {"j": "add"}, {"i": "mul"}))
    return Call("scan", mdt.scan, ("ij->ij", array(2, 3)), named)


def _conv(rng: random.Random) -> Call:
    options = {
        "stride": rng.choice((2, (1, 2))),
        "padding": rng.choice((1, "same", "valid", ((1, 0), (0, 1)))),
        "dilation": rng.choice((1, (1, 2))),
        "groups": rng.choice((1, 2)),
        "layout": rng.choice(("NHWC,KRSC->NPQK", "NHWC,KRSC->NKPQ")),
        "transposed": True,
        "output_padding": 1,
        "bias": array(4),
        "epilogue": rng.choice(("relu", abs)),
        "out": array(1, 4, 4, 4),
        "dtype": "f8",
        "acc_dtype": "f8",
        "precision": "tf32",
    }
    operands, named = (array(1, 6, 6, 2), array(4, 3, 3, 2)), some(rng, options)
    if rng.random() < 0.3:
        residual = rng.choice((array(1, 4, 4, 4), array(4)))
        return Call("conv", mdt.conv, (*operands, residual), {**named, "epilogue": total})
    return Call("conv", mdt.conv, operands, named)


def _product(rng: random.Random) -> Call:
    name = rng.choice(("matmul", "dot", "inner", "vdot", "outer"))
    shapes = {
        "matmul": [((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((3,), (3, 4))],
        "dot": [((2, 3), (3, 4)), ((3,), (3,)), ((), (3,))],
        "inner": [((2, 3), (4, 3)), ((3,), (3,))],
        "vdot": [((3,), (3,)), ((2, 3), (3, 2))],
        "outer": [((2,), (3,)), ((2, 2), (3,))],
    }[name]
    options = {
        "matmul": {"out": array(2, 4), "dtype": "f8", "casting": "same_kind"},
        "dot": {"out": array(2, 4)},
        "outer": {"out": array(2, 3)},
    }.get(name, {})
    args = tuple(array(*shape) for shape in rng.choice(shapes))
    return Call(name, getattr(mdt, name), args, some(rng, options))


def _along_axes(rng: random.Random) -> Call:
    name = rng.choice(("sum", "prod", "max", "min", "mean", "var", "std", "argmax", "argmin"))
    axis: Any = rng.choice((None, 0, -1) if name.startswith("arg") else (None, 0, (0, 1), [-1]))
    options = {"axis": axis, "keepdims": True, "out": array(3)}
    if name in ("sum", "prod", "mean", "var", "std"):
        options["dtype"] = "f8"
    if name in ("var", "std"):
        options["ddof"] = 1
    return Call(name, getattr(mdt, name), (array(2, 3),), some(rng, options))


def _normalised(rng: random.Random) -> Call:
    if rng.random() < 0.2:
        options = some(rng, {"axis": rng.choice((1, -1))})
        return Call("cross_entropy", mdt.cross_entropy, (array(2, 3), np.array([2, 0])), options)
    name = rng.choice(("softmax", "log_softmax", "logsumexp", "layer_norm", "rms_norm"))
    options = {"axis": rng.choice((0, -1, (0, 1))), "out": array(2, 3)}
    if name == "logsumexp":
        options["keepdims"] = True
    if name.endswith("norm"):
        options |= {"weight": array(3), "eps": 1e-3}
    if name == "layer_norm":
        options["bias"] = array(3)
    return Call(name, getattr(mdt, name), (array(2, 3),), some(rng, options))


def _pooled(rng: random.Random) -> Call:
    name = rng.choice(("max_pool", "avg_pool"))
    window: Any = rng.choice((2, (2, 3), (2,)))
    count = 2 if isinstance(window, int) else len(window)
    options = {
        "stride": rng.choice((1, 2)),
        "padding": 1,
        "axes": tuple(range(count)),
        "out": array(3, 2),
    }
    return Call(name, getattr(mdt, name), (array(6, 5), window), some(rng, options))


def _stream(rng: random.Random) -> Call:
    function, *args = rng.choice(
        [
            (mdt.einsum, "ij,jk->ik", array(6, 5), array(5, 4)),
            (mdt.reduce, "ij->i", array(6, 5)),
            (mdt.scan, "i->i", array(6)),
            (mdt.tensordot, array(6, 5), array(5, 4), 1),
        ]
    )

    def streamed(function: Any, *args: Any, **named: Any) -> Any:
        return mdt.stream(as_callers(function), *args, **named)()

    limit = {"memory_limit": rng.choice(("1MB", 100_000))}
    return Call("stream", streamed, (function, *args), limit)


def _replacing(rng: random.Random) -> Call:
    def entered(library: Any) -> None:
        with mdt.replacing(library):
            pass

    return Call("replacing", entered, (rng.choice(("numpy", "opt_einsum")),))


def _conv_capsule(rng: random.Random) -> Call:
    options = {"stride": 2, "padding": "same", "dilation": 1, "dtype": "f8", "acc_dtype": "f8"}
    args = (array(1, 6, 6, 2, 2, 2), array(3, 2, 2, 2, 2, 2))
    return Call("conv_capsule", mdt.conv_capsule, args, some(rng, options))


def _correlation(rng: random.Random) -> Call:
    name = rng.choice(("convolve", "correlate"))
    args = rng.choice(((array(7), array(3)), (array(6, 5), array(3, 2)), ([1, 2, 3], [0, 1, 0.5])))
    named = some(rng, {"mode": rng.choice(("same", "full", 0)), "method": "direct"})
    return Call(name, getattr(mdt, name), args, named)


def _gradient(rng: random.Random) -> Call:
    def energy(x: Any) -> Any:
        return (x * x).sum()

    if rng.random() < 0.5:
        args = ("ij,jk->ik", array(2, 3), array(3, 4))

        def pulled(function: Any, *args: Any, **options: Any) -> Any:
            return mdt.vjp(as_callers(function), *args, **options)

        return Call("vjp", pulled, (mdt.einsum, *args), some(rng, {"dtype": "f8"}))

    name = rng.choice(("grad", "value_and_grad"))

    def gradient(function: Any, given: Any, **options: Any) -> Any:
        return getattr(mdt, name)(as_callers(function), **options)(given)

    return Call(name, gradient, (energy, array(5)), some(rng, {"argnums": rng.choice((0, (0,)))}))


def _jax(rng: random.Random) -> Call:
    """A call in a program of JAX, which is traced and not run."""
    import jax

    from mdtensor import jax as ours

    # JAX's rewriting of tracebacks takes long where a caller's function calls itself.
    jax.config.update("jax_traceback_filtering", "off")
    name, args, options = rng.choice(
        [
            ("einsum", ("ij,jk->ik", array(2, 3), array(3, 4)), {}),
            ("einsum", ("2h+r c, r c -> h", array(8, 3), array(3, 3)), {}),
            ("reduce", ("ij->i", array(2, 3)), {"combine": "max"}),
            ("scan", ("ij->ij", array(2, 3)), {"dim": "i", "exclusive": True, "reverse": True}),
            (
                "conv",
                (array(1, 2, 6, 6), array(4, 2, 3, 3)),
                {
                    "bias": array(4),
                    "stride": rng.choice((2, (1, 2))),
                    "padding": rng.choice((1, "same", ((1, 0), (0, 1)))),
                    "dilation": 1,
                    "groups": 1,
                    "layout": "NCHW,KCRS->NKPQ",
                    "transposed": False,
                    "output_padding": 0,
                },
            ),
        ]
    )
    function = getattr(ours, name)

    def traced(*args: Any, **named: Any) -> Any:
        return jax.eval_shape(lambda: function(*args, **named))

    def applied(function: Any, *args: Any) -> Any:
        return jax.eval_shape(lambda: ours.operator(as_callers(function))(*args))

    if rng.random() < 0.2:
        return Call("jax.operator", applied, (lambda a: mdt.reduce("ij->i", a), array(2, 3)))
    return Call(f"jax.{name}", traced, args, some(rng, options))


def _stencil(rng: random.Random) -> Call:
    border = rng.choice(("valid", "constant", "nearest", "reflect", "mirror", "wrap", "fixed"))
    named = {"border": border} | some(rng, {"cval": 1.5})
    function = rng.choice((neighbours, lambda u: u[0, 0] * 2, lambda u: (u[0, 1], u[1, 0])))
    if rng.random() < 0.4:

        def decorated(function: Any, array: Any, **options: Any) -> Any:
            return mdt.stencil(function, **options)(array)

        return Call("stencil", decorated, (function, array(6, 5)), named)
    made = mdt.stencil(function, **named)
    if rng.random() < 0.4:

        def stepped(u: Any, **named: Any) -> Any:
            steps = named.get("n")
            if type(steps) in (int, np.uint64) and 1000 < steps < 2**63:
                raise OwnError("right, but long")
            return made.steps(u, **named)

        return Call("stencil.steps", stepped, (array(6, 5),), {"n": rng.choice((1, 2, 3))})
    several = rng.choice(((weighted, (array(6, 5), 0.5)), (advanced, (array(6, 5), array(6, 5)))))
    if rng.random() < 0.5:
        return Call("stencil", mdt.stencil(several[0], border="nearest"), several[1])
    return Call("stencil", made, (array(6, 5),), some(rng, {"out": array(6, 5)}))


_FILTERS: Mapping[str, tuple[Any, ...]] = {
    "convolve": (array(3, 3),),
    "convolve1d": (array(3),),
    "correlate": (array(3, 3),),
    "correlate1d": (array(3),),
    "gaussian_filter": (1.0,),
    "gaussian_filter1d": (1.0,),
    "gaussian_gradient_magnitude": (1.0,),
    "gaussian_laplace": (1.0,),
    "generic_gradient_magnitude": (differences,),
    "generic_laplace": (differences,),
    "laplace": (),
    "maximum_filter": (3,),
    "maximum_filter1d": (3,),
    "median_filter": (3,),
    "minimum_filter": ((3, 2),),
    "minimum_filter1d": (3,),
    "percentile_filter": (30.0, (3, 2)),
    "prewitt": (),
    "rank_filter": (2, 3),
    "sobel": (),
    "uniform_filter": (3,),
    "uniform_filter1d": (3,),
}


def _ndimage(rng: random.Random) -> Call:
    name = rng.choice(mdt.ndimage.__all__)
    function = getattr(mdt.ndimage, name)
    options = {
        "mode": rng.choice(("nearest", "constant", "mirror", "wrap")),
        "cval": 1.0,
        "origin": 0,
        "output": rng.choice((np.float64, array(6, 5))),
        "axes": (0, 1),
        "axis": 0,
        "order": 1,
        "truncate": 3.0,
        "radius": 2,
        "footprint": np.ones((3, 3), bool),
        "extra_arguments": (),
        "extra_keywords": {},
    }
    known = inspect.signature(function).parameters
    usable = {key: value for key, value in options.items() if key in known}
    if name.startswith("generic"):

        def of_function(array: Any, derivative: Any, *args: Any, **named: Any) -> Any:
            return function(array, as_callers(derivative), *args, **named)

        args = (array(6, 5), differences)
        return Call(f"ndimage.{name}", of_function, args, some(rng, usable))
    return Call(f"ndimage.{name}", function, (array(6, 5), *_FILTERS[name]), some(rng, usable))


def _lazy(rng: random.Random) -> Call:
    return Call("lazy", mdt.lazy, (rng.choice((array(6, 5), [1, 2], 3.0)),))


def squeezed(y: Any) -> Any:
    """NumPy's, but of a class: Python 3.11 may crash in a method that is called on no object."""
    if isinstance(y, type):
        raise OwnError("a class")
    return np.squeeze(y)


_LAZY: Sequence[tuple[str, Callable[..., Any], Sequence[Any]]] = [
    ("[]", operator.getitem, ((slice(1, -1), slice(None)),)),
    ("[]", operator.getitem, (0,)),
    ("[]", operator.getitem, ((..., None, 2),)),
    ("+", operator.add, (array(6, 5),)),
    ("*", operator.mul, (2.5,)),
    ("**", operator.pow, (2,)),
    ("<", operator.lt, (1,)),
    ("==", operator.eq, (array(5),)),
    ("//", operator.floordiv, (2,)),
    ("<<", operator.lshift, (1,)),
    ("@", operator.matmul, (array(5, 2),)),
    ("np.sin", np.sin, ()),
    ("np.maximum", np.maximum, (0.5,)),
    ("np.where", lambda y, a, b: np.where(y > 1, a, b), (1.0, array(5))),
    ("np.clip", np.clip, (1, 3)),
    ("np.round", np.round, (1,)),
    ("np.swapaxes", np.swapaxes, (0, 1)),
    ("np.moveaxis", np.moveaxis, (0, 1)),
    ("np.expand_dims", np.expand_dims, (1,)),
    ("np.squeeze", squeezed, ()),
    ("np.flip", np.flip, (0,)),
    ("np.broadcast_to", np.broadcast_to, ((2, 6, 5),)),
    ("np.transpose", np.transpose, ((1, 0),)),
    ("np.sum", np.sum, (0,)),
    ("np.mean", np.mean, ()),
    ("np.add.reduce", np.add.reduce, (0,)),
    ("np.add.at", np.add.at, (0, 1)),
    ("np.concatenate", lambda y, z: np.concatenate([y, z]), (array(6, 5),)),
    ("np.concatenate", lambda y, *args: np.concatenate([y, y], *args), (0,)),
    ("np.stack", lambda y, *args: np.stack([y, y], *args), (1,)),
    ("np.roll", np.roll, (1, 0)),
    ("np.roll", np.roll, ((1, 2), (0, 1))),
    ("np.pad", np.pad, (((1, 2), (0, 1)), "edge")),
    ("np.diff", np.diff, (1, 0)),
    ("np.tril", np.tril, (1,)),
    ("np.triu", np.triu, (-1,)),
    ("np.take", np.take, ([0, 2, 1], 1)),
    ("np.reshape", np.reshape, ((5, 6),)),
    ("reshape", lambda y, *shape: y.reshape(*shape), (3, 10)),
    ("np.ravel", np.ravel, ()),
    ("np.einsum", lambda y, text: np.einsum(text, y), ("ij->i",)),
    ("mdt.einsum", lambda y, text: mdt.einsum(text, y), ("ij->i",)),
    ("astype", lambda y, dtype: y.astype(dtype), ("f8",)),
    ("transpose", lambda y, *axes: y.transpose(*axes), (1, 0)),
    ("sum", lambda y, axis, **named: y.sum(axis, **named), (0,)),
    ("max", lambda y, axis, **named: y.max(axis, **named), ((0, 1),)),
    ("mean", lambda y, axis, **named: y.mean(axis, **named), (-1,)),
    ("any", lambda y, axis, **named: y.any(axis, **named), (1,)),
    ("evaluate", lambda y, out: (y + 1).evaluate(out), (array(6, 5),)),
    ("setitem", operator.setitem, (0, 1.0)),
    ("attribute", getattr, ("dot",)),
    ("format", format, ("",)),
    ("iter", list, ()),
    ("bool", bool, ()),
    ("in", operator.contains, (2,)),
]


def _of_lazy(rng: random.Random) -> Call:
    name, function, args = rng.choice(_LAZY)
    # Not among what may be something else: Python's own operators would be called.
    return Call(f"lazy {name}", partial(function, mdt.lazy(array(6, 5))), args)


def _mdh(rng: random.Random) -> Call:
    clauses = (
        out(w=Buffer[fp32]),
        inp(M=Buffer[fp32], v=Buffer[fp32]),
        combine_ops(mdt.cc, mdt.pw(add)),
    )
    if rng.random() < 0.5:
        made = mdt.mdh(*clauses)(matvec)
        args = (array(2), array(2, 3), array(3))[rng.choice((0, 1)) :]
        return Call("directive", made, args)

    def decorated(function: Any, arrays: Any, *clauses: Any, **named: Any) -> Any:
        return mdt.mdh(*clauses, **named)(function)(*arrays)

    return Call("mdh", decorated, (matvec, (array(2, 3), array(3)), *clauses))


def _loops(rng: random.Random) -> Call:
    made, args = rng.choice(
        [
            (mdt.mdh(doubled), (array(4), array(4))),
            (mdt.mdh(summed), (array(2), array(2, 3))),
        ]
    )
    return Call("loops", made, args)


def _dsl(rng: random.Random) -> Call:
    parts = (
        (fp32, fp32),
        (2, 3),
        f_mul,
        (mdt.cc, mdt.pw(add)),
        ([lambda i, k: i], [lambda i, k: (i, k)], [lambda i, k: k]),
    )
    if rng.random() < 0.4:
        return Call("dsl", program(*parts), (array(2, 3), array(3)))

    def computed(*parts: Any) -> Any:
        return program(*parts)(array(2, 3), array(3))

    return Call("md_hom", computed, parts)


def _declared(rng: random.Random) -> Call:
    name, function, args = rng.choice(
        [
            ("Buffer", Buffer.__class_getitem__, ((fp32, 3, 4),)),
            ("scalar", operator.getitem, (fp64, 8)),
            ("out", out, ()),
            ("combine_ops", combine_ops, (mdt.cc, mdt.pw(maximum))),
            ("pw_custom_func", lambda i, f: mdt.pw(pw_custom_func(i)(f)), (0, total)),
            ("inp_view", lambda t, a: mdt.inp_view[t](x=a), (fp32, [lambda i: i])),
            ("record", Buffer.__class_getitem__, ({"id": int64, "word": char[4]},)),
        ]
    )
    named = {"w": Buffer[fp32]} if name == "out" else {}
    return Call(name, function, args, named)


def _operators(rng: random.Random) -> Call:
    name, function, args = rng.choice(
        [
            ("pw", mdt.pw, ("add",)),
            ("ps", mdt.ps, (np.maximum,)),
            ("pw", mdt.pw, (total,)),
            ("operator", mdt.operator, (total,)),
            ("operator", lambda f, i: mdt.operator(identity=i)(f), (both, (0, 1))),
        ]
    )
    return Call(name, function, args)


def _spec(rng: random.Random) -> Call:
    return Call("spec", mdt.spec, rng.choice((((64, 128), "f4"), (10, "i8"), ((2, 3),))))


def _compile(rng: random.Random) -> Call:
    spec = mdt.spec
    args, named = rng.choice(
        [
            (("ij,jk->ik", spec((2, 3)), spec((3, 4))), {}),
            (("ij,jk->ik", array(2, 3), spec((3, 4))), {"dtype": "f8", "order": "F"}),
            (("ij,jk->ik", spec((2, 3)), spec((3, 4))), {"semiring": "min_plus"}),
            (("h+r->h", spec((5,))), {"extents": {"r": 2}}),
            ((mdt.einsum, "ij,jk->ik", spec((2, 3)), spec((3, 4))), {}),
            ((mdt.reduce, "ij->i", spec((2, 3))), {"combine": "max"}),
            ((mdt.scan, "i->i", spec((3,))), {"combine": "add"}),
            ((mdt.conv, spec((1, 6, 6, 2)), spec((4, 3, 3, 2))), {"padding": "same"}),
            ((mdt.convolve, array(7), array(3)), {}),
            ((mdt.ndimage.uniform_filter, array(6, 5), 3), {"mode": "nearest"}),
            ((mdt.stencil(neighbours), spec((6, 5))), {}),
            ((mdt.mdh(doubled), array(4), array(4)), {}),
        ]
    )
    return Call("compile", mdt.compile, args, named)


_plans: dict[int, Any] = {}


def _plan(rng: random.Random) -> Call:
    number = rng.randrange(4)
    if number not in _plans:
        specs = mdt.spec((2, 3)), mdt.spec((3, 4))
        _plans[number] = [
            lambda: mdt.compile("ij,jk->ik", *specs),
            lambda: mdt.compile("ij,jk->ik", *specs, semiring="min_plus"),
            lambda: mdt.compile(mdt.reduce, "ij->i", specs[0], combine="max"),
            lambda: mdt.compile(mdt.reduce, "ij->", specs[0], f=lambda x: (x, x), combine="add"),
        ][number]()
    plan = _plans[number]
    args = (array(2, 3), array(3, 4))[: 2 if number < 2 else 1]
    result = [array(2, 4), array(2, 4), array(2), (array(), array())][number]
    return Call("plan", plan, args, {"out": result} if rng.random() < 0.5 else {})


def _tuning(rng: random.Random) -> Call:
    def entered(mode: Any, **named: Any) -> Any:
        with mdt.tuning(mode, **named) as seen:
            return seen

    return Call("tuning", entered, (rng.choice(("off", "cached", "record")),), {"budget": "30s"})


def _tune(rng: random.Random) -> Call:
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,jk->ik", array(2, 3), array(3, 4))
    work = rng.choice((seen, list(seen), next(iter(seen), None)))
    return Call("tune", mdt.tune, (work,), {"budget": rng.choice((1, "2s")), "quiet": True})


def _ragged(rng: random.Random) -> Call:
    def summed(given: Any, offsets: Any = None) -> Any:
        batch = mdt.ragged(given, offsets)
        return batch, mdt.einsum("btd->bd", batch)

    parts = [array(2, 3), array(0, 3), array(4, 3)]
    args = rng.choice(((parts,), (array(6, 3), [0, 2, 2, 6]), (array(6, 3), np.array([0, 5, 6]))))
    return Call("ragged", summed, args)


def _shard(rng: random.Random) -> Call:
    def summed(given: Any, devices: Any, axis: Any, text: Any) -> Any:
        cut = mdt.shard(given, devices, axis)
        assert isinstance(cut, mdt.ShardedArray)
        return cut, mdt.einsum(text, cut, cut), mdt.stencil(neighbours)(cut)

    names = [name for name in mdt.devices() if not name.startswith("CUDA")]
    devices = rng.choice((names, names[:1], dict.fromkeys(names, 2.0)))
    text = rng.choice(("ij,ij->i", "ij,ij->j", "ij,kj->ik"))
    return Call("shard", summed, (array(6, 3), devices, rng.choice((0, 1, -1, None)), text))


def _report(rng: random.Random) -> Call:
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,jk->ik", array(2, 3), array(3, 4))
    work = rng.choice((seen, list(seen), next(iter(seen), None), None))
    peers = rng.choice((None, {}, {"numpy.einsum": 2e-6}))
    named = {"peers": peers, "pictures": rng.choice((None, "drawn"))}
    return Call("report", mdt.report, ("report.html", work), named)


def _limited(most: Any) -> None:
    with mdt.threads(most):
        pass


def _facts(rng: random.Random) -> Call:
    name, function, args, named = rng.choice(
        [
            ("device", mdt.device, (None,), {}),
            ("devices", mdt.devices, (), {}),
            ("stats", mdt.stats, (), {"reset": False}),
            ("threads", _limited, (2,), {}),
            ("memory", mdt.memory, (), {"free": True}),
            ("memory", mdt.memory, (), {"free": False, "bound": rng.choice(("1GB", 1 << 28))}),
        ]
    )
    return Call(name, function, args, named)


_COMMANDS: Sequence[Sequence[str]] = [
    ("explain", "ij,jk->ik", "4,5", "5,6"),
    ("explain", "ij,jk->ik", "4,5", "5,6", "--passes"),
    ("explain", "i h+r -> h", "4,5", "r=2"),
    ("tune", "ij,jk->ik", "4,5:f8", "5,6", "--budget", "2s", "--quiet"),
    ("tune", "--file", "list.txt"),
    ("bench", "ij,jk->ik", "4,5", "5,6", "--dtype", "f8"),
    ("bench", "--", "--family", "kernels"),
    ("demo", "--quick", "--epochs", "2"),
    ("report", "report.html"),
    ("report", "report.html", "ij,jk->ik", "4,5", "5,6"),
    ("cache", "ls"),
    ("cache", "path"),
    ("cache", "export", "rows.json"),
    ("cache", "import", "rows.json"),
    ("cache", "prune", "--older-than", "3"),
    ("devices",),
    ("--version",),
]


def _command(rng: random.Random) -> Call:
    def typed(*words: Any) -> Any:
        """A command line, whose words are texts without zeros."""
        line = [str(word).replace("\0", "").encode("utf-8", "replace").decode() for word in words]
        result = CliRunner().invoke(main.app, line, catch_exceptions=False)
        assert "Traceback" not in result.output, result.output
        return result.exit_code

    return Call("command", typed, rng.choice(_COMMANDS))


_MOST_ELEMENTS = 1 << 22
_MOST_PARTS = 1000  # of arguments that are looked at; some hold themselves
# What stands for work that takes long, or writes where it should not.
CALLS: Sequence[tuple[int, Callable[[random.Random], Call]]] = [
    (8, _einsum),
    (3, _interleaved),
    (2, _einsum_path),
    (3, _tensordot),
    (3, _product),
    (5, _along_axes),
    (3, _normalised),
    (3, _pooled),
    (2, _stream),
    (1, _replacing),
    (1, _ragged),
    (1, _shard),
    (8, _reduce),
    (3, _records),
    (4, _scan),
    (5, _conv),
    (2, _conv_capsule),
    (4, _correlation),
    (6, _stencil),
    (8, _ndimage),
    (3, _gradient),
    (2, _jax),
    (1, _lazy),
    (6, _of_lazy),
    (5, _mdh),
    (3, _loops),
    (5, _dsl),
    (3, _declared),
    (3, _operators),
    (2, _spec),
    (5, _compile),
    (5, _plan),
    (1, _tuning),
    (1, _tune),
    (1, _report),
    (1, _facts),
    (2, _command),
]


def is_long(call: Call) -> bool:
    """Whether a call has large numbers or arrays: with these, what is right may take hours."""
    given = [*call.args, *call.named.values()]
    for value in given:  # and what is in it, which comes to the end
        if type(value) in (tuple, list) and len(given) < _MOST_PARTS:
            given += value
    return any(map(_is_large, given))


def _is_large(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.size > _MOST_ELEMENTS
    return isinstance(value, int | float | np.number) and value > 1000


def right(rng: random.Random) -> Call:
    """A call that is right, or nearly so."""
    weights, makers = zip(*CALLS, strict=True)
    (make,) = rng.choices(makers, weights)
    return make(rng)


def wrong(rng: random.Random, call: Call) -> Call:
    """The call with one to three things wrong about it."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        call = _mutated(rng, call)
    return call


def _mutated(rng: random.Random, call: Call) -> Call:
    args, named = list(call.args), dict(call.named)
    action = rng.random()
    if args and action < 0.6:
        at = rng.randrange(len(args))
        args[at] = odd(rng, args[at])
    elif named and action < 0.8:
        name = rng.choice([*named])
        named[name] = odd(rng, named[name])
    elif action < 0.9:
        name = rng.choice([*_options(call.function), str(odd_key(rng))])
        named[name] = rng.choice((*ANYTHING, *NUMBERS, *WORDS))(rng)
    elif args and action < 0.93:
        del args[rng.randrange(len(args))]
    elif args and action < 0.96:
        args.insert(rng.randrange(len(args) + 1), rng.choice(args))
    elif len(args) > 1:
        rng.shuffle(args)
    return replace(call, args=tuple(args), named=named)


def _options(function: Callable[..., Any]) -> list[str]:
    """The names by which a function takes arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
