"""Ragged batches as operands of `einsum` and `reduce`, sequence by sequence."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import DTypeError, ShapeError, SubscriptError, TranslationError

RNG = np.random.default_rng(7)
LENGTHS: dict[str, tuple[int, ...]] = {
    "some empty": (4, 0, 2, 7, 0, 1),
    "one": (5,),
    "one empty": (0,),
    "all empty": (0, 0, 0),
    "none": (),
    "all equal": (3, 3, 3, 3),
    "one value": (0, 1, 0),
    "many": tuple(RNG.integers(0, 40, 60).tolist()),
}
EXTENTS = {"d": 3, "e": 5, "f": 1}
RAGGED_RESULTS = (
    *("btd,de->bte", "btd,btd->btd", "btd->bt", "btd,bd->bt", "btd,bd->btd", "bt,b->bt"),
    *("btd,de,ef->btf", "btd,d->bt", "btd,bte->btde", "btd,td->btd", "btd,bt->btd", "btd,ed->bte"),
    *("btd,bde->bte", "bt,d->btd", "btf,f->btf", "btde->bted"),
)
DENSE_RESULTS = (
    *("btd,btd->bd", "btd->bd", "btd->b", "btd,bte->bde", "btd,bd->b", "btd,td->b", "bt->b"),
    *("btd->", "btd->d", "btd,bte->de", "btd,bd->d", "btd,de->be", "btd,de,ef->bf", "btd,bd->"),
    *("btd,bte->ebd", "btd,btd,bte->be", "btd,bt->d", "btd,btd->db"),
)


def terms_of(text: str) -> tuple[list[str], str]:
    inputs, _, output = text.partition("->")
    return inputs.split(","), output


def operands_of(text: str, lengths: tuple[int, ...], dtype: Any = "f8") -> list[Any]:
    """Random operands: those of terms that begin with bt are ragged, but for a bare bt behind."""
    extents = {**EXTENTS, "b": len(lengths), "t": max(lengths, default=0) + 2}
    terms, _ = terms_of(text)

    def drawn(shape: tuple[int, ...]) -> np.ndarray:
        values = RNG.integers(1, 5, shape) + RNG.random(shape) * (np.dtype(dtype).kind in "fcV")
        if np.dtype(dtype).kind == "c":
            values = values + 1j * RNG.integers(1, 5, shape)
        return values.astype(dtype)

    given: list[Any] = []
    for n, term in enumerate(terms):
        if term.startswith("bt") and (n == 0 or len(term) > 2):
            rest = tuple(extents[name] for name in term[2:])
            offsets = np.cumsum([0, *lengths])
            given.append(mdt.ragged(drawn((sum(lengths), *rest)), offsets))
        else:
            given.append(drawn(tuple(extents[name] for name in term)))
    return given


def expected_of(text: str, given: list[Any], lengths: tuple[int, ...], combine: Any) -> Any:
    """What NumPy gives for sequence after sequence: a list where t remains, else an array."""
    terms, output = terms_of(text)
    found: list[np.ndarray] = []
    for b, length in enumerate(lengths):
        shown, arrays = [], []
        for term, operand in zip(terms, given, strict=True):
            array = operand
            if "b" in term:
                array = operand[b]
            if "t" in term and not isinstance(operand, mdt.Ragged):
                array = array[:length]
            shown.append(term.replace("b", ""))
            arrays.append(wide(array))
        names = "".join(dict.fromkeys("".join(shown)))
        kept = "".join(n for n in names if n in output)
        whole = np.einsum(f"{','.join(shown)}->{names}", *arrays)
        axes = tuple(n for n, name in enumerate(names) if name not in output)
        one = combine(whole, axes)
        found.append(np.einsum(f"{kept}->{output.replace('b', '')}", one))
    if "t" in output:
        return found
    if "b" in output:
        shape = [EXTENTS[n] for n in output.replace("b", "")]
        stacked = np.stack(found) if found else np.empty((0, *shape))
        return np.moveaxis(stacked, 0, output.index("b"))
    zero = np.zeros([EXTENTS[n] for n in output])
    return combine(np.stack(found), (0,)) if found else zero


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype("c16" if array.dtype.kind == "c" else "f8")


def add(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return array.sum(axes)


def compare(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    if not isinstance(expected, list):
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=rtol)
        return
    assert isinstance(found, mdt.Ragged)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("text", [*RAGGED_RESULTS, *DENSE_RESULTS])
def test_sums_of_products(text: str, lengths: tuple[int, ...]) -> None:
    given = operands_of(text, lengths)
    expected = expected_of(text, given, lengths, add)
    compare(mdt.einsum(text, *given), expected)
    compare(mdt.reduce(text, *given), expected)


def random_string(rng: random.Random) -> str:
    """A string whose first operand is ragged; dense ones may have batch and sequence."""
    terms = ["bt" + "".join(rng.sample("def", rng.randint(0, 2)))]
    for _ in range(rng.randint(0, 2)):
        chosen = rng.sample("btdef", rng.randint(1, 3))
        terms.append("".join(sorted(chosen, key=lambda name: "bt".find(name) % 3)))
    rest = [name for name in dict.fromkeys("".join(terms)) if name not in "bt"]
    output = "".join(rng.sample(rest, rng.randint(0, len(rest))))
    at = rng.randint(0, len(output))
    return f"{','.join(terms)}->" + rng.choice(
        [output, f"bt{output}", f"{output[:at]}b{output[at:]}"]
    )


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(40))
def test_random_strings(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    text = random_string(rng)
    lengths = tuple(rng.choices((0, 1, 2, 3, 9, 17), k=rng.choice((0, 1, 2, 5, 11))))
    for name in "def":
        monkeypatch.setitem(EXTENTS, name, rng.choice((1, 2, 3, 5, 8)))
    given = operands_of(text, lengths)
    expected = expected_of(text, given, lengths, add)
    compare(mdt.einsum(text, *given), expected, 1e-11)
    compare(mdt.reduce(text, *given), expected, 1e-11)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("text", ["btd->bd", "btd,bd->b", "btd,btd->b", "btd,bd->bt"])
@pytest.mark.parametrize(("name", "identity"), [("max", -np.inf), ("min", np.inf), ("mul", 1)])
def test_operators(name: str, identity: float, text: str, lengths: tuple[int, ...]) -> None:
    """An empty sequence gives the operator's identity."""
    numpys = {"max": np.max, "min": np.min, "mul": np.prod}[name]
    given = operands_of(text, lengths)

    def combine(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return numpys(array, axis=axes, initial=identity)

    compare(mdt.reduce(text, *given, combine=name), expected_of(text, given, lengths, combine))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("text", ["btd,de->bte", "btd,btd->bd", "btd,bd->bt", "btd,bte->de"])
def test_types_are_those_of_dense_arrays(dtype: str, text: str) -> None:
    lengths = LENGTHS["some empty"]
    given = operands_of(text, lengths, dtype)
    found = mdt.einsum(text, *given)
    assert found.dtype == np.dtype(dtype)
    expected = expected_of(text, given, lengths, add)
    if dtype == "?":
        expected = [e > 0 for e in expected] if isinstance(expected, list) else expected > 0
    if dtype == "i1":
        expected = (
            [e.astype("i8").astype("i1") for e in expected]
            if isinstance(expected, list)
            else expected.astype("i8").astype("i1")
        )
    compare(found, expected, {"f2": 5e-3, "f4": 1e-5, "c8": 1e-5}.get(dtype, 1e-12))


def test_bfloat16() -> None:
    given = operands_of("btd,de->bte", LENGTHS["many"], ml_dtypes.bfloat16)
    for text in ("btd,de->bte", "btd,de->be"):
        found = mdt.einsum(text, *given)
        assert found.dtype == ml_dtypes.bfloat16
        exact = expected_of(text, given, LENGTHS["many"], add)
        if isinstance(found, mdt.Ragged):
            found, exact = found.values, np.concatenate(exact)
        np.testing.assert_allclose(wide(found), exact, rtol=1e-2)


def test_functions_get_positions_in_sequences() -> None:
    lengths = LENGTHS["some empty"]
    (r,) = operands_of("btd->b", lengths)
    found = mdt.reduce("btd->bd", r, f=lambda x, *, b, t: x * t + b)
    expected = [(one * np.arange(len(one))[:, None] + b).sum(0) for b, one in enumerate(r)]
    compare(found, np.stack(expected))
    found = mdt.reduce("btd->btd", r, f=lambda x, *, b, t: x * t + b)
    compare(found, [one * np.arange(len(one))[:, None] + b for b, one in enumerate(r)])
    found = mdt.reduce("btd->d", r, f=lambda x, *, b, t: x * t + b)
    compare(found, np.sum(expected, 0))


def test_positions_of_extremes() -> None:
    r = mdt.ragged([RNG.random((n, 3)) for n in (4, 1, 9)])
    found = mdt.reduce("btd->bd", r, combine="argmax")
    np.testing.assert_array_equal(found, [one.argmax(0) for one in r])
    with_empty = mdt.ragged([[1.0, 3.0, 2.0], []])
    value, at = mdt.reduce("bt->b", with_empty, f=lambda x, *, t: (x, t), combine="argmax")
    assert (value[0], at[0], value[1]) == (3, 1, -np.inf)
    with pytest.raises(ShapeError, match="argmax of no elements: sequence 1 is empty"):
        mdt.reduce("bt->b", with_empty, combine="argmax")
    with pytest.raises(TranslationError, match="argmin of ragged sequences along several dims"):
        mdt.reduce("btd->b", r, combine="argmin")


def test_operators_of_each_dim() -> None:
    (r,) = operands_of("btd->b", LENGTHS["some empty"])
    found = mdt.reduce("btd->b", r, combine={"d": "add", "t": "max"})
    np.testing.assert_allclose(found, [one.sum(1).max(initial=-np.inf) for one in r], rtol=1e-12)
    found = mdt.reduce("btd->d", r, combine={"t": "add", "b": "max"})
    np.testing.assert_allclose(found, np.max([one.sum(0) for one in r], 0), rtol=1e-12)
    found = mdt.scan("btd->btd", r, combine={"d": "add"})
    compare(found, [one.cumsum(1) for one in r])


def test_operators_that_mind_the_order() -> None:
    """The last element of each sequence; the identity, -1, where it is empty."""
    last = mdt.operator(lambda x, y: np.where(y == -1.0, x, y), identity=-1.0)
    r = mdt.ragged([[3.0, 1.0], [], [5.0, 9.0, 2.0]])
    np.testing.assert_array_equal(mdt.reduce("bt->b", r, combine=last), [1, -1, 2])
    assert mdt.reduce("bt->", r, combine=last) == 2


def test_logarithms_of_sums() -> None:
    (r,) = operands_of("btd->b", LENGTHS["some empty"])
    x = RNG.random((6, 3))
    found = mdt.einsum("btd,bd->b", r, x, semiring="logsumexp")
    expected = [np.logaddexp.reduce(one + x[b], axis=None) for b, one in enumerate(r)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_of_a_table_are_gathered() -> None:
    tokens = mdt.ragged([[1, 3, 0], [], [2]])
    table = RNG.random((4, 5))
    found = mdt.einsum("b t, @0 d -> b t d", tokens, table)
    compare(found, [table[one.astype(int)] for one in tokens])
    found = mdt.reduce("b t, @0 d -> b d", tokens, table, combine="add")
    compare(found, np.stack([table[one.astype(int)].sum(0) for one in tokens]))


def test_epilogues() -> None:
    r, w = operands_of("btd,de->bte", LENGTHS["some empty"])
    bias = RNG.random(5)
    found = mdt.einsum("btd,de->bte; e", r, w, bias, epilogue="bias_relu")
    compare(found, [np.maximum(one @ w + bias, 0) for one in r])
    found = mdt.einsum("btd,de->bte; bte", r, w, found, epilogue="bias")
    compare(found, [one @ w + np.maximum(one @ w + bias, 0) for one in r])
    found = mdt.einsum("btd,de->be; be", r, w, RNG.random((6, 5)) * 0 + 2, epilogue="bias")
    compare(found, np.stack([(one @ w).sum(0) + 2 for one in r]))
    with pytest.raises(TranslationError, match="an epilogue of a ragged result takes its dims 'b'"):
        mdt.einsum("btd,de->bte; b", r, w, np.ones(6), epilogue="bias")


def test_results_go_to_out() -> None:
    r, w = operands_of("btd,de->bte", LENGTHS["some empty"])
    out = r.with_values(np.empty((len(r.values), 5)))
    assert mdt.einsum("btd,de->bte", r, w, out=out) is out
    np.testing.assert_allclose(out.values, r.values @ w, rtol=1e-12)
    dense = np.empty((6, 3))
    assert mdt.reduce("btd->bd", r, combine="max", out=dense) is dense
    np.testing.assert_array_equal(dense, [one.max(0, initial=-np.inf) for one in r])
    assert mdt.einsum("btd->bd", r, out=dense) is dense
    np.testing.assert_allclose(dense, [one.sum(0) for one in r], rtol=1e-12)
    for wrong in (dense, mdt.ragged(out.values, [0, 14])):
        with pytest.raises(ShapeError, match="out is no ragged batch of the same lengths"):
            mdt.einsum("btd,de->bte", r, w, out=wrong)


def test_softmax_of_sequences() -> None:
    (r,) = operands_of("bt->b", LENGTHS["many"])
    top = mdt.reduce("bt->b", r, combine="max")
    powers = mdt.reduce("bt,b->bt", r, top, f=lambda x, m: np.exp(x - m))
    sums = mdt.reduce("bt->b", powers)
    found = mdt.reduce("bt,b->bt", powers, sums, f=lambda p, s: p / s)
    expected = [np.exp(one - one.max(initial=0)) for one in r]
    compare(found, [e / e.sum() for e in expected])


def test_steps_that_would_keep_sequences_without_their_batch() -> None:
    """A path may add up the batch first: all operands are combined at once then."""
    lengths = LENGTHS["some empty"]
    (r,) = operands_of("btd->b", lengths)
    x, y = RNG.random(6), RNG.random((9, 4))
    expected = sum(x[b] * one.T @ y[: len(one)] for b, one in enumerate(r))
    for path in (True, False, ["einsum_path", (0, 1), (0, 1)], ["einsum_path", (0, 2), (0, 1)]):
        found = mdt.einsum("btd,b,tk->dk", r, x, y, optimize=path)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_dense_axes_without_elements() -> None:
    r = mdt.ragged(np.empty((0, 2)), [0, 0, 0])
    assert mdt.einsum("btd,td->btd", r, np.ones((0, 2))).values.shape == (0, 2)
    np.testing.assert_array_equal(mdt.einsum("btd,td->b", r, np.ones((0, 2))), [0, 0])
    np.testing.assert_array_equal(mdt.reduce("btd,td->b", r, np.ones((0, 2))), [0, 0])


def test_several_types_in_one_call() -> None:
    lengths = LENGTHS["some empty"]
    for one, other in (("f4", "f8"), ("i1", "f4"), ("?", "f8"), ("f8", "c16"), ("i8", "f4")):
        r, w = operands_of("btd,de->bte", lengths, one)[0], RNG.integers(0, 5, (3, 5)).astype(other)
        for text in ("btd,de->bte", "btd,de->be", "btd,de->e"):
            found = mdt.einsum(text, r, w)
            assert found.dtype == np.result_type(one, other)
            compare(found, expected_of(text, [r, w], lengths, add), 1e-6)


def test_results_of_other_types_are_cast_as_asked() -> None:
    r, w = operands_of("btd,de->bte", LENGTHS["some empty"])
    out = r.with_values(np.empty((len(r.values), 5), "f4"))
    with pytest.raises(DTypeError, match="result is float64, which does not go into float32"):
        mdt.einsum("btd,de->bte", r, w, out=out)
    mdt.einsum("btd,de->bte", r, w, out=out, casting="same_kind")
    np.testing.assert_allclose(out.values, r.values @ w, rtol=1e-6)


def test_views_are_read_in_place() -> None:
    values = RNG.random((3, 14)).T
    r = mdt.ragged(values[:, ::2], np.cumsum([0, 4, 0, 2, 8]))
    assert np.shares_memory(r.values, values)
    compare(mdt.einsum("btd->bd", r), np.stack([one.sum(0) for one in r]))
    compare(mdt.einsum("btd,btd->btd", r, r), [one * one for one in r])


def test_many_batches_in_turn() -> None:
    for count in range(1, 40, 3):
        lengths = tuple(RNG.integers(0, 9, count).tolist())
        for text in ("btd,de->bte", "btd,btd->bd", "btd,bd->bt"):
            given = operands_of(text, lengths)
            compare(mdt.einsum(text, *given), expected_of(text, given, lengths, add))


def test_work_follows_values() -> None:
    """As padded arrays, these would have 10¹⁰ elements."""
    lengths = np.zeros(100_000, np.int64)
    lengths[::1000], lengths[7] = 3, 100_000
    r = mdt.ragged(np.ones(lengths.sum()), np.cumsum([0, *lengths]))
    np.testing.assert_array_equal(mdt.einsum("bt->b", r), lengths)
    scaled = mdt.einsum("bt,b->bt", r, np.arange(100_000.0))
    np.testing.assert_array_equal(scaled.values, r.shared_offsets.rows)


@pytest.mark.parametrize(
    ("error", "said", "call"),
    [
        (ShapeError, "operands 0 and 1 are ragged batches of other lengths",
         lambda r, s: mdt.einsum("btd,btd->bd", r, s)),
        (TranslationError, "a ragged result begins with the dims 'b' and 't'",
         lambda r, s: mdt.einsum("btd->tbd", r)),
        (TranslationError, "a ragged result begins with the dims 'b' and 't'",
         lambda r, s: mdt.einsum("btd->td", r)),
        (SubscriptError, "operand 0 is a ragged batch, whose first indices are batch and sequence",
         lambda r, s: mdt.einsum("...d->...", r)),
        (SubscriptError, "operand 0 is a ragged batch, whose first indices are batch and sequence",
         lambda r, s: mdt.einsum("bbd->d", r)),
        (SubscriptError, "operand 0 is a ragged batch, whose first indices are batch and sequence",
         lambda r, s: mdt.reduce("b t+u d, u -> b t", r, np.ones(2))),
        (SubscriptError, "ragged operands differ in the names of batch and sequence",
         lambda r, s: mdt.einsum("bqd,bkd->b", r, r)),
        (ShapeError, "a sequence has length 3, but axis 0 of operand 1 has extent 2",
         lambda r, s: mdt.einsum("btd,td->b", r, np.ones((2, 2)))),
        (SubscriptError, "index 'b' has extent 3 in operand 0 but 4 in operand 1",
         lambda r, s: mdt.einsum("btd,bd->b", r, np.ones((4, 2)))),
        (TranslationError, "dim 't' of a ragged operand is scanned",
         lambda r, s: mdt.scan("btd->btd", r, combine={"t": "add"})),
        (TranslationError, "has no identity, and a sequence may be empty",
         lambda r, s: mdt.reduce("btd->bd", r, combine=lambda x, y: x * y + x + y)),
        (SubscriptError, "extents gives dim 't' of a ragged batch an extent",
         lambda r, s: mdt.reduce("btd->b", r, extents={"t": 1})),
        (DTypeError, "no kernels compute with a foreign byte order",
         lambda r, s: mdt.einsum("btd->b", r, dtype=">f8")),
        (DTypeError, "no kernels compute with dtype object",
         lambda r, s: mdt.einsum("btd->b", r.with_values(r.values.astype(object)))),
        (DTypeError, "cannot be cast", lambda r, s: mdt.einsum("btd->bd", r, dtype="f4")),
        (DTypeError, "operand 0 is a ragged batch where a dense array is due",
         lambda r, s: mdt.matmul(r, np.ones((2, 2)))),
        (DTypeError, "a ragged batch is no array", lambda r, s: np.sin(np.asarray(r))),
    ],
)  # fmt: skip
def test_what_is_refused(error: Any, said: str, call: Any) -> None:
    r = mdt.ragged(np.ones((5, 2)), [0, 2, 2, 5])
    with pytest.raises(error, match=said):
        call(r, mdt.ragged(np.ones((5, 2)), [0, 3, 4, 5]))
