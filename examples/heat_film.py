"""Heat finds its way through a maze: a film of the heat equation, with isotherms.

python examples/heat_film.py [film.gif]    needs pillow

du/dt = div(k grad u): walls conduct badly, the rooms between them well. The room in the middle is
kept hot. A step is one stencil of three arrays; the film is the quicker the longer it goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import mdtensor as mdt

SIZE, CELL, WALL = 156, 12, 2
STEPS = [round(1.18**n) + 20 for n in range(48)]  # from picture to picture
# Black, violet, red, orange, yellow, white: what hot iron looks like.
IRON = [(8, 4, 24), (70, 10, 95), (165, 30, 85), (230, 90, 30), (250, 190, 40), (255, 252, 220)]


@mdt.stencil(border="nearest")
def heated(u, k, kept):  # type: ignore[no-untyped-def]
    """One step: what flows in through the four sides; `kept` is a temperature, or -1."""
    flow = np.float32(0)
    for y, x in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        # Two materials in a row conduct as the harmonic mean says.
        through = 2 * k[0, 0] * k[y, x] / (k[0, 0] + k[y, x])
        flow += through * (u[y, x] - u[0, 0])
    return kept[0, 0] if kept[0, 0] >= 0 else u[0, 0] + np.float32(0.2) * flow


def maze(cells: int, draw: np.random.Generator) -> np.ndarray:
    """Conductivities of a maze of square cells with one way between any two of them."""
    k = np.full((SIZE, SIZE), 0.001, np.float32)
    room = CELL - 2 * WALL
    seen, way = {(0, 0)}, [(0, 0)]
    while way:
        y, x = way[-1]
        sides = [(y + dy, x + dx) for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1))]
        free = [s for s in sides if s not in seen and min(s) >= 0 and max(s) < cells]
        if not free:
            way.pop()
            continue
        ny, nx = free[draw.integers(len(free))]
        top, left = min(y, ny) * CELL + WALL, min(x, nx) * CELL + WALL
        k[top : top + abs(ny - y) * CELL + room, left : left + abs(nx - x) * CELL + room] = 1
        seen.add((ny, nx))
        way.append((ny, nx))
    return k


def picture(u: np.ndarray, k: np.ndarray) -> Image.Image:
    """Temperatures as colours, with isotherms; walls are darker."""
    shown = np.kron(u**0.4, np.ones((3, 3)))
    scale = np.linspace(0, 1, len(IRON))
    rgb = np.stack([np.interp(shown, scale, colour) for colour in zip(*IRON, strict=True)], -1)
    band = np.floor(12 * shown)
    line = (band != np.roll(band, 1, 0)) | (band != np.roll(band, 1, 1))
    walls = np.kron(k, np.ones((3, 3))) < 1
    rgb[line & ~walls] *= 0.6
    rgb[walls] = 0.3 * rgb[walls] + 8
    return Image.fromarray(rgb.astype(np.uint8))


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "examples/output/heat_film.gif")
    k = maze(SIZE // CELL, np.random.default_rng(4))
    middle = slice(SIZE // 2 - CELL // 2 + WALL, SIZE // 2 + CELL // 2 - WALL)
    kept = np.full((SIZE, SIZE), -1, np.float32)
    kept[middle, middle] = 1
    u = np.zeros((SIZE, SIZE), np.float32)
    pictures: list[Image.Image] = []
    for n in STEPS:
        u = heated.steps(u, k, kept, n=n)
        pictures.append(picture(u, k))
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=80, loop=0)
    pictures[-1].save(path.with_suffix(".png"))
    print(f"{path}: {len(STEPS)} pictures of {sum(STEPS)} steps; mean temperature {u.mean():.2f}")


if __name__ == "__main__":
    main()
