"""Functions that use a local variable several times, step after step: they agree with Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.directive import mdh
from mdtensor.errors import TranslationError
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from tests.counted import Counted

POLYNOMIAL = 0x1021
CODES = np.arange(0, 65536, 97).astype("u2")


def crc(code):
    """The remainder of two bytes by the polynomial of CRC-16, bit by bit."""
    for _ in range(16):
        shifted = (code << 1) & 0xFFFF
        code = np.where(code & 0x8000, shifted ^ POLYNOMIAL, shifted)
    return code


def crc_of(code: int) -> int:
    for _ in range(16):
        code = ((code << 1) ^ (POLYNOMIAL if code & 0x8000 else 0)) & 0xFFFF
    return code


def crcs(out, codes):
    for n in range(codes.shape[0]):
        code = codes[n]
        for _ in range(16):
            shifted = (code << 1) & 0xFFFF
            code = shifted ^ POLYNOMIAL if code & 0x8000 else shifted
        out[n] = code


def crc_of_message(out, message):
    """CRC-16/XMODEM of each row of nine bytes, bit by bit."""
    for n in range(message.shape[0]):
        code = 0
        for k in range(9):
            code = code ^ (message[n, k] << 8)
            for _ in range(8):
                shifted = (code << 1) & 0xFFFF
                code = shifted ^ POLYNOMIAL if code & 0x8000 else shifted
        out[n] = code


def test_a_crc_bit_by_bit() -> None:
    expected = [crc_of(int(code)) for code in CODES]
    wide = CODES.astype("i4")
    assert mdt.reduce("n->n", wide, f=crc).tolist() == expected
    assert mdt.stencil(lambda codes: crc(codes[0]))(wide).tolist() == expected
    out = np.zeros_like(wide)
    mdh(crcs)(out, wide)
    assert out.tolist() == expected


def test_a_crc_of_bytes() -> None:
    message = np.random.default_rng(0).integers(0, 256, (50, 9))
    message[0] = list(b"123456789")
    found, expected = np.zeros(50, "i8"), np.zeros(50, "i8")
    crc_of_message(expected, message)
    mdh(crc_of_message)(found, message)
    assert found.tolist() == expected.tolist()
    assert found[0] == 0x31C3  # the check value that catalogues of CRCs give for XMODEM


def escapes(c, steps):
    """After how many steps of z -> z * z + c the number is outside a circle."""
    z, count = c * 0, 0
    for _ in range(steps):
        z = z * z + c
        count = count + (z.real * z.real + z.imag * z.imag <= 4)
    return count


def escapes_of_parts(a, b, steps):
    x, y, count = a * 0, b * 0, 0
    for _ in range(steps):
        x, y = x * x - y * y + a, 2 * x * y + b
        count = count + (x * x + y * y <= 4)
    return count


def mandelbrot_5(out, a, b):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            x = 0.0
            y = 0.0
            count = 0
            for _ in range(5):
                wide = x * x - y * y + a[i]
                y = 2 * x * y + b[j]
                x = wide
                if x * x + y * y <= 4:
                    count += 1
            out[i, j] = count


def mandelbrot_50(out, a, b):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            x = 0.0
            y = 0.0
            count = 0
            for _ in range(50):
                wide = x * x - y * y + a[i]
                y = 2 * x * y + b[j]
                x = wide
                if x * x + y * y <= 4:
                    count += 1
            out[i, j] = count


# Multiples of 1/8 for which five steps are exact, whichever way compilers contract them.
A, B = np.arange(-16, 8) / 8, np.arange(-8, 9) / 8


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize(("program", "steps"), [(mandelbrot_5, 5), (mandelbrot_50, 50)])
def test_steps_of_mandelbrot(program: Callable[..., None], steps: int) -> None:
    expected = np.zeros((len(A), len(B)), "i8")
    program(expected, A, B)
    found = np.zeros_like(expected)
    mdh(program)(found, A, B)
    inside = mdt.reduce("i,j->i j", A, B, f=lambda a, b: escapes_of_parts(a, b, steps))
    corners = A[:, None] + 1j * B
    complex_ones = mdt.reduce("i j->i j", corners, f=lambda c: escapes(c, steps))
    by_stencil = mdt.stencil(lambda c: escapes(c[0, 0], steps))(corners)
    for counts in (found, inside, complex_ones, by_stencil):
        np.testing.assert_array_equal(counts, expected)


def doubled(x):
    for _ in range(60):
        x = x * x + x
    return x


def raised(x, steps=500):
    for step in range(steps):
        x = x + step % 3
    return x


X = np.linspace(-0.9, -0.1, 50)


@pytest.mark.parametrize("function", [doubled, raised])
def test_many_levels(function: Callable[[Any], Any]) -> None:
    expected = function(X)
    lazily = np.asarray(function(mdt.lazy(X)))
    found = mdt.reduce("i->i", X, f=function)
    total = mdt.reduce("i->", X, f=function)
    for values in (lazily, found, mdt.stencil(lambda x: function(x[0]))(X)):
        np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(total, expected.sum(), rtol=1e-12)


def test_a_chain_of_thousands() -> None:
    found = mdt.reduce("i->i", X, f=lambda x: raised(x, 5000))
    np.testing.assert_allclose(found, raised(X, 5000), rtol=1e-12)


def test_sharing_bounds_all_that_is_made_of_a_function() -> None:
    with Counted(most=400_000):
        md_hom = md_hom_from_reduction(Reduction("i->i", doubled), [TensorSpec.of((50,), "f8")])
        problem = problem_from_md_hom(md_hom)
        structure, _ = generalised(problem)
        assert len(repr(md_hom)) < 5000
        assert len(problem_key(problem)) < 5000
        for asked in (problem, structure):
            assert len(program_of(asked, plain(asked), OPENCL).text) < 20_000
        np.testing.assert_allclose(reference.run(md_hom, [X])[0], doubled(X))


def test_many_levels_of_an_index() -> None:
    def mixed(x, *, i):
        for _ in range(60):
            i = (i * i + i + 100000) % 1001
        return x + i

    np.testing.assert_array_equal(mdt.reduce("i->i", X, f=mixed), mixed(X, i=np.arange(len(X))))


def test_many_levels_of_a_condition() -> None:
    def flipped(x):
        holds = x > 0
        for step in range(60):
            low, high = x < step / 60 - 1, x > -step / 60
            holds = np.logical_xor(np.logical_and(holds, low), np.logical_or(holds, high))
        return np.where(holds, x, -x)

    np.testing.assert_array_equal(mdt.reduce("i->i", X, f=flipped), flipped(X))


def test_operators_of_many_levels() -> None:
    def larger(a, b):
        x = np.maximum(a, b)
        for _ in range(60):
            x = np.maximum(x, np.minimum(x, a)) * 1
        return x

    assert mdt.reduce("i->", X, combine=larger) == X.max()


def test_operators_of_too_many_levels() -> None:
    def larger(a, b):
        x = np.maximum(a, b)
        for _ in range(201):
            x = x * 1
        return x

    with pytest.raises(TranslationError) as error:
        mdt.reduce("i->", X, combine=larger)
    assert str(error.value) == (
        "operator 'larger' has a chain of more than 200 operations\n"
        "  hint: unroll fewer steps, or let f compute them before elements are combined"
    )


def test_more_operations_than_kernels_have() -> None:
    def endless(x):
        for step in range(20_000):
            x = x + step
        return x

    with pytest.raises(TranslationError) as error:
        mdt.reduce("i->i", X, f=endless)
    assert str(error.value) == (
        "an expression has more than 20000 operations\n"
        "  hint: unroll fewer steps, or write them as a dim of the computation"
    )
