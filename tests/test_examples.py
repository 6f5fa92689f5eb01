from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from tests import children
from tests.children import ROOT

# {} is a folder for what an example writes.
ARGUMENTS = {
    "cnn_training.py": [],
    "drawing.py": ["{}/drawing.png"],
    "einsum_in_a_model.py": [],
    "gpt_decoding.py": ["--tokens", "24", "--rounds", "2"],
    "heat_film.py": ["{}/film.gif"],
    "record_linkage.py": ["{}/matches.csv"],
    "tune_shapes.py": ["6"],
}
LAST_WORDS = {
    "cnn_training.py": "new digits are read right",
    "drawing.py": "generated kernels: 100.0%",
    "einsum_in_a_model.py": "cost",
    "gpt_decoding.py": "logits agree with float64",
    "heat_film.py": "mean temperature 0.07",
    "record_linkage.py": "precision 0.99",
    "tune_shapes.py": "largest eigenvalue 3.9",
}
# Those that need torch run where it is installed, as the benchmarks' machines have it.
WITH_TORCH = ("cnn_training.py",)
HAS_TORCH = importlib.util.find_spec("torch") is not None


def run(name: str, folder: Path) -> str:
    arguments = [argument.format(folder) for argument in ARGUMENTS[name]]
    return children.run(f"examples/{name}", *arguments, env={"PYTHONPATH": ROOT}).out


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(ARGUMENTS)


def check_drawing(folder: Path) -> None:
    """Flat colours, and darker lines, of the same motif."""
    both = np.asarray(Image.open(folder / "drawing.png"), np.float64)
    assert both.shape == (427, 1280, 3)
    photo, drawing = both[:, :640], both[:, 640:]
    assert np.corrcoef(photo.ravel(), drawing.ravel())[0, 1] > 0.9
    steps = [np.abs(np.diff(side, axis=1)) for side in (photo, drawing)]
    assert np.mean(steps[1] < 4) > np.mean(steps[0] < 4) + 0.1
    dark = [np.mean(side.sum(axis=-1) < 10) for side in (photo, drawing)]
    assert dark[1] > dark[0]


def check_film(folder: Path) -> None:
    """It gets warmer from picture to picture."""
    with Image.open(folder / "film.gif") as film:
        pictures = [picture.convert("L") for picture in ImageSequence.Iterator(film)]
    brightness = [float(np.asarray(picture).mean()) for picture in pictures]
    assert len(brightness) == 48
    assert all(after > before - 0.5 for before, after in itertools.pairwise(brightness))
    assert brightness[-1] > 2 * brightness[0]


CHECKS = {"drawing.py": check_drawing, "heat_film.py": check_film}


@pytest.mark.campaign
@pytest.mark.parametrize("name", [n for n in ARGUMENTS if HAS_TORCH or n not in WITH_TORCH])
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    assert LAST_WORDS[name] in run(name, tmp_path)
    if name in CHECKS:
        CHECKS[name](tmp_path)


@pytest.mark.campaign
def test_shapes_are_tuned_once(tmp_path: Path) -> None:
    run("tune_shapes.py", tmp_path)
    again = run("tune_shapes.py", tmp_path)
    assert re.search(r"everything came from the cache|\b[1-4] from the cache", again), again


@pytest.mark.campaign
def test_lengths_of_a_text_need_no_compiler(tmp_path: Path) -> None:
    """Sums of one element are another structure than longer ones; after those, nothing compiles."""
    found = re.search(r"compiled at positions \[(.*)\]", run("gpt_decoding.py", tmp_path))
    assert found
    assert set(found[1].split(", ")) <= {"", "0", "1"}


@pytest.mark.process
@pytest.mark.parametrize("name", WITH_TORCH)
def test_without_torch_an_example_says_what_to_install(name: str) -> None:
    program = f"""
import importlib.util, runpy
importlib.util.find_spec = lambda *_: None
try:
    runpy.run_path({str(ROOT / "examples" / name)!r})
except ModuleNotFoundError as error:
    print(error, error.name)
"""
    said = children.run("-c", program).out
    assert said == "this example trains with torch: pip install torch torch\n"
