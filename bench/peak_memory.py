"""Peak memory of convolutions against that of their operands: `python -m bench.peak_memory`.

What the compiler and earlier calls hold is no part of it: every kernel has run before, and the
process' peak is reset. Linux only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mdtensor as mdt
from mdtensor.api.engine import registry

IMAGES, FILTERS = (32, 64, 112, 112), (64, 64, 3, 3)
_PROCESS = Path("/proc/self")


def main() -> None:
    """Prints the peak of each way to say a 3x3 convolution of 32 images of 64x112x112."""
    filters = np.random.default_rng(1).random(FILTERS, np.float32)

    def by_string(images: np.ndarray) -> np.ndarray:
        return mdt.einsum("n c h+r w+s, k c r s -> n k h w", images, filters)

    def padded(images: np.ndarray) -> np.ndarray:
        return mdt.conv(images, filters, padding=1, layout="NCHW,KCRS->NKPQ")

    for call in (by_string, padded):
        peak, own = peak_of(call)
        share = peak / (own + filters.nbytes)
        print(f"{call.__name__}: {peak / 1e6:.1f} MB, {share:.3f} of operands and result")


def peak_of(call: Callable[[np.ndarray], np.ndarray]) -> tuple[int, int]:
    """The bytes that a call's image and result added at their peak, and their own bytes."""
    image = random_image()
    for _ in range(3):
        call(image)
        registry.engine_for().settle()
    del image
    (_PROCESS / "clear_refs").write_text("5", encoding="ascii")
    before = int((_PROCESS / "statm").read_text(encoding="ascii").split()[1])
    image = random_image()
    result = call(image)
    status = (_PROCESS / "status").read_text(encoding="ascii").splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return peak * 1024 - before * os.sysconf("SC_PAGE_SIZE"), image.nbytes + result.nbytes


def random_image() -> np.ndarray:
    """An image of random numbers, which takes the memory of its elements only."""
    return np.random.default_rng(0).random(IMAGES, np.float32)


if __name__ == "__main__":
    main()
