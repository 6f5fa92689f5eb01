"""Calls with `devices=`: who computes what, what comes back, and what is refused."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.backends import select
from mdtensor.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    DTypeError,
    LaunchError,
    ShapeError,
    TranslationError,
)
from tests.api.multi_device import pools

BOTH = ["llvm", "pool"]
TEXTS = ("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij,j->i", "i,i->", "ij,jk,kl->il", "ijk,jil->kl",
         "ii->i", "i,j->ij", "ijk->j", "abc,cd,db->a")  # fmt: skip


def drawn(rng: np.random.Generator, text: str, most: int) -> list[np.ndarray]:
    """Operands of random extents and types."""
    terms = text.partition("->")[0].split(",")
    sizes = {name: int(rng.integers(1, most)) for name in sorted(set("".join(terms)))}
    kind = rng.choice(["f8", "f4", "c16"])
    return [rng.standard_normal([sizes[name] for name in term]).astype(kind) for term in terms]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(33))
def test_random_einsums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = TEXTS[seed % len(TEXTS)]
    arrays = drawn(rng, text, 60)
    wide = [array.astype("c16" if array.dtype.kind == "c" else "f8") for array in arrays]
    found = mdt.einsum(text, *arrays, devices="all" if seed % 2 else {"llvm": 1, "pool": 2.5})
    assert found.dtype == arrays[0].dtype
    terms = np.einsum(text, *map(np.abs, wide))
    error = np.abs(found - np.einsum(text, *wide))
    assert (error <= 64 * np.finfo(found.dtype).eps * (terms + 1e-300)).all()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", ["i4", "f4"])
def test_what_does_not_round_has_the_bits_of_one_device(text: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    arrays = [np.rint(3 * np.real(array)).astype(dtype) for array in drawn(rng, text, 24)]
    whole = mdt.einsum(text, *arrays)
    cuts = list(pools.by_each_dim(lambda *given: mdt.einsum(text, *given), arrays))
    assert cuts
    for _, shares, results in cuts:
        np.testing.assert_array_equal(results[0], whole, err_msg=repr(shares))


def test_every_device_computes_its_share_in_a_thread_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, tuple[int, str]] = {}
    chosen = registry.choice_on

    def noted(engine: Engine, md_hom: Any) -> Any:
        name = "pool" if engine is pools.second_engine() else "llvm"
        seen[name] = md_hom.extents["i"], threading.current_thread().name
        return chosen(engine, md_hom)

    monkeypatch.setattr(registry, "choice_on", noted)
    a, b = np.ones((400, 30)), np.ones((30, 20))
    result = mdt.einsum("ij,jk->ik", a, b, devices={"pool": 3, "llvm": 1})
    np.testing.assert_array_equal(result, np.full((400, 20), 30.0))
    assert seen == {
        "pool": (304, threading.current_thread().name),  # named first
        "llvm": (96, "mdtensor-device-1"),
    }


def test_results_go_to_out_where_it_lies() -> None:
    a = np.random.default_rng(0).random((90, 70))
    out = np.zeros((140, 180))[::2, ::-2]
    assert mdt.einsum("ij->ji", a, out=out, devices=BOTH) is out
    np.testing.assert_array_equal(out, a.T)
    single = np.zeros((90, 90), "f4")
    mdt.einsum("ij,kj->ik", a, a, out=single, devices=BOTH)
    np.testing.assert_allclose(single, a @ a.T, rtol=1e-6)
    square = a[:70, :70].copy()
    expected = square @ square
    mdt.einsum("ij,jk->ik", square, square, out=square, devices=BOTH)
    np.testing.assert_allclose(square, expected, rtol=1e-13)


def test_out_that_does_not_fit() -> None:
    a = np.ones((4, 3))
    with pytest.raises(ShapeError, match=r"^out has shape \(4,\) but the result \(3, 4\)$"):
        mdt.einsum("ij->ji", a, out=np.ones(4), devices=BOTH)
    with pytest.raises(DTypeError, match=r"^the result is float64, which does not go into int64$"):
        mdt.einsum("ij->ji", a, out=np.ones((3, 4), int), devices=BOTH)
    frozen = np.ones((3, 4))
    frozen.flags.writeable = False
    with pytest.raises(ShapeError, match=r"^out is read-only"):
        mdt.einsum("ij->ji", a, out=frozen, devices=BOTH)


def test_numbers_zeros_and_empty_arrays() -> None:
    assert isinstance(mdt.einsum("i,i->", np.ones(5), np.ones(5), devices=BOTH), np.float64)
    assert mdt.einsum("ij->j", np.ones((0, 3)), devices=BOTH).tolist() == [0, 0, 0]
    assert mdt.einsum("ij->ij", np.ones((0, 3)), devices=BOTH).shape == (0, 3)
    assert mdt.einsum("i,j->ij", [1, 2], [3], devices=BOTH).tolist() == [[3], [6]]
    assert mdt.einsum("i,i->i", [2], [3], devices=BOTH).tolist() == [6]  # nothing to cut


def test_a_transposition_is_a_copy() -> None:
    a = np.ones((4, 3))
    assert not np.may_share_memory(mdt.einsum("ij->ji", a, devices=BOTH), a)


def test_other_semirings_and_epilogues() -> None:
    rng = np.random.default_rng(1)
    a, b, bias = rng.random((50, 40)), rng.random((40, 30)), rng.random(30)
    shortest = mdt.einsum("ij,jk->ik", a, b, semiring="min_plus", devices=BOTH)
    np.testing.assert_array_equal(shortest, (a[:, :, None] + b).min(1))
    relu = mdt.einsum("ij,jk->ik; k", a, b, bias - 10, epilogue="bias_relu", devices=BOTH)
    np.testing.assert_allclose(relu, np.maximum(a @ b + bias - 10, 0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("call", range(3))
def test_a_call_that_one_device_made_before(call: int) -> None:
    a = np.random.default_rng(call).random((33, 44))
    for devices in (None, BOTH, None, BOTH):
        np.testing.assert_allclose(mdt.einsum("ij->j", a, devices=devices), a.sum(0), rtol=1e-13)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    chosen = registry.choice_on

    def choice_on(engine: Engine, md_hom: Any) -> Any:
        if engine is pools.second_engine():
            raise error
        return chosen(engine, md_hom)

    monkeypatch.setattr(registry, "choice_on", choice_on)


def test_errors_of_a_part_say_which_device(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones((64, 8))
    failing(monkeypatch, CompileError("no kernel", notes=["1: line"], hint="wait"))
    with pytest.raises(CompileError) as raised:
        mdt.einsum("ij->i", a, devices=BOTH)
    assert str(raised.value) == (f"no kernel\n  1: line\n  on device {pools.POOL}\n  hint: wait")


def test_what_a_driver_raises_is_a_launch_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, RuntimeError("device lost"))
    with pytest.raises(LaunchError) as raised:
        mdt.einsum("ij,kj->", np.ones((64, 8)), np.ones((3, 8)), devices=BOTH)
    assert str(raised.value) == (
        f"{pools.POOL} failed on its part: RuntimeError: device lost\n"
        "  hint: leave the device out of devices=, and the others compute its part"
    )
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_memory_errors_and_interrupts_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError(), KeyboardInterrupt()):
        failing(monkeypatch, error)  # type: ignore[arg-type]
        with pytest.raises(type(error)):
            mdt.einsum("ij->i", np.ones((64, 8)), devices=BOTH)


HINT = "'all', a list of names as mdtensor.devices() has them, or a dict from names to weights"


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ("llvm", f"devices is 'llvm'\n  hint: {HINT}"),
        ([], f"devices is empty\n  hint: {HINT}"),
        (
            ["llvm", "abacus"],
            (
                "no device for numpy arrays is called 'abacus'\n  available: {llvm}\n"
                "  available: Pool: threads\n  hint: name a part of one of these"
            ),
        ),
        (
            ["pool", "threads"],
            "'pool' and 'threads' are one device: Pool: threads\n  hint: name each device once",
        ),
        (
            {"llvm": 1, "pool": 0},
            (
                "the weight of 'pool' is 0\n"
                "  hint: a number above 0: a device with twice the weight gets twice the indices"
            ),
        ),
    ],
)
def test_devices_that_are_none(devices: Any, said: str) -> None:
    with pytest.raises(DeviceError) as raised:
        mdt.einsum("ij->i", np.ones((4, 3)), devices=devices)
    assert str(raised.value) == said.replace("{llvm}", mdt.devices()[0])


@pytest.mark.parametrize("devices", [3, [3], {"llvm": "much"}, 1.5])
def test_devices_of_wrong_types(devices: Any) -> None:
    with pytest.raises(DTypeError):
        mdt.einsum("ij->i", np.ones((4, 3)), devices=devices)


def test_all_is_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "_opencl_devices", list)
    with pytest.raises(DeviceError) as raised:
        mdt.einsum("ij->i", np.ones((4, 3)), devices="all")
    assert str(raised.value) == (
        "devices='all' is for two devices or more, and 1 computes numpy arrays\n"
        f"  available: {mdt.devices()[0]}\n"
        "  hint: leave devices= out: the call computes on the device there is"
    )
    np.testing.assert_array_equal(mdt.einsum("ij->i", np.ones((4, 3)), devices=["llvm"]), [3] * 4)


def test_options_that_make_no_sense_together() -> None:
    a = np.ones((4, 3))
    with pytest.raises(ArgumentError) as raised:
        mdt.einsum("ij->i", a, memory_limit="1GB", devices=BOTH)
    assert str(raised.value) == (
        "devices= and memory_limit= in one call\n"
        "  hint: devices share the memory of the host: leave one of them out"
    )
    with pytest.raises(TranslationError, match="more than kernels on its operands"):
        mdt.einsum("i,i->", np.array([1, 2], object), np.ones(2), devices=BOTH)


def test_dask_arrays_are_not_spread() -> None:
    import dask.array as da

    array = da.ones((4, 3), chunks=2)
    with pytest.raises(TranslationError, match="devices= is neither for Dask arrays"):
        mdt.einsum("ij->i", array, devices=BOTH)


def test_tuning_records_nothing_of_other_devices() -> None:
    with mdt.tuning("record") as recorded:
        mdt.einsum("ij->i", np.ones((64, 8)), devices=BOTH)
    assert len(recorded) == 0


def test_calls_are_counted_once() -> None:
    mdt.stats(reset=True)
    mdt.einsum("ij,jk->ik", np.ones((64, 8)), np.ones((8, 8)), devices=BOTH)
    assert sum(mdt.stats().generated.values()) == 1
