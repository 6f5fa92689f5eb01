"""The cases beyond einsum: every way that a library has for one computes its reference."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest

from bench.engines import ENGINES, Library
from bench.families import ALL, FAMILIES, named
from bench.kernels import KERNELS
from bench.kernels.convolutions import Convolution, capsules, convolution
from bench.kernels.everyday import EVERYDAY
from bench.kernels.kernel import Kernel
from bench.kernels.records import OTHER, SAME, SAME_ID, linkage
from bench.kernels.reductions import (
    argmax_rows,
    double_reduction,
    histogram,
    log_sum_exp,
    min_plus,
)
from bench.kernels.scans import mbbs, scan
from bench.kernels.stencils import gaussian, jacobi
from bench.workload import CALL

# torch looks for libraries by a process when it is imported, which tests may not begin.
if importlib.util.find_spec("torch") is not None:
    importlib.import_module("torch")

SMALL = (
    gaussian(13),
    jacobi(1, 17),
    jacobi(2, 9),
    jacobi(3, 7),
    scan(37, "37"),
    mbbs(11),
    histogram(101, 7, "int32", "101"),
    histogram(101, 7, "uint8", "101"),
    min_plus(9),
    log_sum_exp(9),
    argmax_rows(19),
    double_reduction(53, "53"),
    convolution("valid", Convolution(2, 7, 7, 5, 3, 3, 3)),
    convolution("strided", Convolution(2, 9, 8, 3, 4, 3, 3, stride=2, padding=1)),
    convolution("product", Convolution(1, 4, 4, 5, 3, 1, 1)),
    convolution("depthwise", Convolution(1, 6, 6, 4, 4, 3, 3, padding=1, groups=4)),
    linkage(21, 40, "21x40"),
    capsules("capsules", Convolution(2, 7, 7, 2, 3, 3, 3, stride=2)),
)


def installed(engine: type[Library]) -> bool:
    if engine.word == "mdtensor":
        return True
    return importlib.util.find_spec(engine.word) is not None


WORDS = {e.word: e for e in ENGINES.values() if installed(e)}
CASES = (*SMALL, *(case for case in EVERYDAY if isinstance(case, Kernel)))
SAID = [(kernel, word) for kernel in CASES for word in kernel.words if word in WORDS]


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("kernel", "word"), SAID, ids=lambda value: getattr(value, "name", value))
def test_every_way_agrees_with_the_reference(kernel: Kernel, word: str) -> None:
    operands = kernel.operands()
    references = kernel.reference(operands)
    assert [r.shape for r in references] == [spec.shape for spec in kernel.outputs]
    with warnings.catch_warnings():
        # Peers warn of what a newer NumPy will no longer do.
        warnings.simplefilter("ignore")
        for outs in (kernel.empty_outputs(), kernel.no_outputs()):
            for name, call in kernel.calls(word, operands, outs).items():
                assert kernel.error(call(), references) <= kernel.tolerance, name


def test_calls_without_results_make_new_ones() -> None:
    kernel = jacobi(1, 17)
    for word in ("mdtensor", "numpy"):
        calls = kernel.calls(word, kernel.operands(), kernel.no_outputs())
        for call in calls.values():
            assert not np.shares_memory(call(), call())


def test_every_case_has_a_peer() -> None:
    assert all("mdtensor" in kernel.words for kernel in KERNELS)
    assert all({"numpy", "numba"} & set(kernel.words) for kernel in KERNELS)


def test_mdtensor_says_every_case_by_one_call_into_the_results() -> None:
    for kernel in SMALL:
        operands, outs = kernel.operands(), kernel.empty_outputs()
        calls = kernel.calls("mdtensor", operands, outs)
        assert list(calls) == [CALL]


def test_names_are_distinct() -> None:
    assert {workload for cases in FAMILIES.values() for workload in cases} < set(ALL)
    assert len({workload.name for workload in ALL}) == len(ALL)
    assert all(named(workload.name) is workload for workload in ALL)


def test_sizes_of_first_layers() -> None:
    sizes = {k.name: k.outputs[0].shape for k in KERNELS if k.name.startswith(("mcc", "capsule"))}
    assert sizes["mcc-resnet-16x230x230x3-64x7x7-s2"] == (16, 112, 112, 64)
    assert sizes["mcc-vgg-1x224x224x3-64x3x3"] == (1, 224, 224, 64)
    assert sizes["mcc-mobilenet-1x225x225x3-32x3x3-s2"] == (1, 112, 112, 32)
    assert sizes["capsule-resnet-1x230x230x3-64x7x7-s2-4x4"] == (1, 112, 112, 64, 4, 4)
    assert sizes["mcc-1x7x7x512-512x3x3"] == (1, 5, 5, 512)


def test_operations_of_a_resnet_layer() -> None:
    (layer,) = [k for k in KERNELS if k.name == "resnet50-02-1x56x56x64-64x1x1"]
    assert layer.flops == 2 * 56 * 56 * 64 * 64
    assert layer.bytes_read == 4 * (56 * 56 * 64 + 64 * 64)


def test_wrong_integers_are_no_small_error() -> None:
    kernel = argmax_rows(5)
    references = kernel.reference(kernel.operands())
    assert kernel.error(references[0] + 1, references) == np.inf
    assert kernel.error(kernel.empty_outputs(), references) == np.inf
    assert kernel.error(references, references) == 0


def test_a_missing_element_of_a_long_sum_is_an_error() -> None:
    kernel = scan(1 << 20, "2^20")
    (x,) = kernel.operands()
    references = kernel.reference([x])
    assert kernel.error(np.cumsum(x), references) <= kernel.tolerance
    assert kernel.error(np.cumsum(x[::-1])[::-1], references) > kernel.tolerance
    x[np.flatnonzero(x)[-1]] = 0
    assert kernel.error(np.cumsum(x), references) > kernel.tolerance


def test_each_of_several_results_counts() -> None:
    kernel = double_reduction(16, "16")
    references = kernel.reference(kernel.operands())
    total, most = references
    assert kernel.error((total, most), references) == 0
    assert kernel.error((total, most + 1), references) > kernel.tolerance
    assert kernel.error(total, references) == np.inf


def test_linkage_by_its_definition() -> None:
    kernel = linkage(40, 30, "40x30")
    new, known = kernel.operands()
    matches = zip(*kernel.reference([new, known]), strict=True)
    measures: list[int] = []
    for person, match in zip(new, matches, strict=True):
        found: list[tuple[bool, float, int, int]] = []
        for other in known:
            same = [field for field in SAME if person[field] == other[field]]
            weight = sum(SAME[f] if f in same else OTHER[f] for f in SAME)
            exact = person["id"] == other["id"]
            found.append((exact, weight, -other["id"], SAME_ID if exact else len(same)))
        _, weight, minus_id, measure = max(found)
        assert match == (-minus_id, weight, measure)
        measures.append(measure)
    assert SAME_ID in measures
    assert len(set(measures)) > 2
