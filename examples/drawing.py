"""A photograph as a coloured drawing: flat colours within dark outlines, by a chain of stencils.

python examples/drawing.py [drawing.png]    needs scikit-learn and pillow
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import mdtensor as mdt

REACH, ALIKE = 3, 0.12
DISTANCES = range(-REACH, REACH + 1)
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def mean_of_alike(u, places):  # type: ignore[no-untyped-def]
    """The mean of those elements that look like the one in the middle (a bilateral filter)."""
    total, weights = np.float32(0), np.float32(0)
    for distance, place in zip(DISTANCES, places, strict=True):
        difference = (u[place] - u[0, 0, 0]) / ALIKE
        near = np.float32(math.exp(-distance * distance / (2 * REACH)))
        weight = near * np.exp(-0.5 * difference * difference)
        total += weight * u[place]
        weights += weight
    return total / weights


@mdt.stencil(border="reflect")
def across(u):  # type: ignore[no-untyped-def]
    """Flat colours along rows; edges stay sharp."""
    return mean_of_alike(u, [(0, 0, x) for x in DISTANCES])


@mdt.stencil(border="reflect")
def down(u):  # type: ignore[no-untyped-def]
    """Flat colours along columns."""
    return mean_of_alike(u, [(0, y, 0) for y in DISTANCES])


@mdt.stencil(border="reflect")
def contrast(u):  # type: ignore[no-untyped-def]
    """How fast the brightness changes, by Scharr's weights."""
    right = 3 * (u[-1, 1] - u[-1, -1]) + 10 * (u[0, 1] - u[0, -1]) + 3 * (u[1, 1] - u[1, -1])
    below = 3 * (u[1, -1] - u[-1, -1]) + 10 * (u[1, 0] - u[-1, 0]) + 3 * (u[1, 1] - u[-1, 1])
    return np.sqrt(right * right + below * below) / 16


def outlines(gray: np.ndarray) -> np.ndarray:
    """Paper that is 1 where nothing is drawn: dark sides of edges, finer and coarser ones."""
    fine = mdt.lazy(mdt.ndimage.gaussian_filter(gray, 0.8))
    coarse = mdt.lazy(mdt.ndimage.gaussian_filter(gray, 1.6))
    edges = mdt.lazy(contrast(gray))
    ink = 40 * np.maximum(0.985 * coarse - fine, 0) + 0.6 * edges
    return np.asarray(np.exp(-ink * ink))


def drawn(photo: np.ndarray) -> np.ndarray:
    """A drawing of a photograph; both are uint8[height, width, 3]."""
    colours = np.ascontiguousarray(photo.transpose(2, 0, 1)).astype(np.float32) / 255
    for _ in range(4):
        colours = down(across(colours))
    gray = mdt.einsum("chw,c->hw", colours, LUMINANCE)
    paper = outlines(gray)
    # Fewer shades, as of crayons, and brighter ones.
    shades = mdt.lazy(colours) * 10
    steps = (np.floor(shades) + 1 / (1 + np.exp(-12 * (shades - np.floor(shades) - 0.5)))) / 10
    inked = np.clip(steps**0.85 * mdt.lazy(paper)[None], 0, 1)
    return np.asarray((255 * inked).astype(np.uint8)).transpose(1, 2, 0)


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "examples/output/drawing.png")
    photo = load_sample_image("china.jpg")
    drawing = drawn(photo)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.hstack([photo, drawing])).save(path)
    print(mdt.stats())
    print(f"{path}: photograph and drawing, {photo.shape[1]} x {photo.shape[0]} each")


if __name__ == "__main__":
    main()
