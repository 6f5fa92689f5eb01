"""Files of defaults: what is learnt comes back, and what is damaged or hostile is refused."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.defaults import defaults_file
from mdtensor.autotune.defaults.defaults_file import (
    Defaults,
    default_winners,
    defaults_in,
    defaults_of,
    read,
    shipped,
    text_of,
    write,
)
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.errors import StoreError, StoreWarning
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.plain_data import data_of
from tests.autotune.hostile_schedules import hostile_texts
from tests.problems import einsum_problem
from tests.targets import CPU, H200


def product(m: int, k: int, n: int, dtype: type = np.float32) -> Problem:
    return einsum_problem("ij,jk->ik", (m, k), (k, n), dtype=dtype)


def winner_of(problem: Problem, *, confirmed: bool = True, text: str = "") -> WinnerRow:
    text = text or replace(plain(problem), registers=(2, 1, 1)).to_json()
    return WinnerRow(problem_key(problem), "here", text, 1e-3, 5, 1.0, confirmed)


SHAPES = [product(4, 5, 6), product(7, 8, 9), product(4, 5, 6, np.float64)]
MADE = defaults_of(map(winner_of, SHAPES), CPU)
DATA: dict[str, Any] = json.loads(text_of(MADE))


def test_confirmed_winners_are_learnt_by_structure() -> None:
    rows = [
        winner_of(product(2, 2, 2), confirmed=False),
        *map(winner_of, SHAPES),
        winner_of(product(3, 3, 3), text="{}"),
        winner_of(product(3, 3, 3), text=plain(product(3, 3, 3), "gpu").to_json()),
    ]
    made = defaults_of(rows, CPU)
    assert [(each.structure, len(each.winners)) for each in made.structures] == [
        ("mul/add *,*+,* float32(*,1,0) float32(0,*,1) -> float32(*,0,1)", 2),
        ("mul/add *,*+,* float64(*,1,0) float64(0,*,1) -> float64(*,0,1)", 1),
    ]
    assert made.device.name == CPU.name


def test_a_file_holds_what_was_learnt(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write(file, MADE)
    assert read(file) == MADE
    assert defaults_in(text_of(defaults_of([], CPU))).structures == ()
    assert [row.problem for row in read(file).rows()] == [*map(problem_key, SHAPES)]
    assert os.listdir(tmp_path) == ["a.json"]


def test_devices_get_the_file_of_the_nearest_class() -> None:
    def of(**device: Any) -> Defaults:
        return replace(MADE, device=replace(MADE.device, **device))

    def name(*files: Defaults) -> str:
        return default_winners(CPU, files)[0].environment

    assert name(of(name="other", cores=2), of(cores=64)) == "defaults of two cores x64"
    assert name(of(name="a", cores=16), of(name="b", cores=4)) == "defaults of b x4"
    assert name(of(name="a", dialect="llvm"), of(name="b")) == "defaults of b x2"
    for odd in (of(vector_bytes=32), of(kind="gpu"), replace(MADE, generator=2)):
        assert default_winners(CPU, [odd]) == []
    assert default_winners(H200, [MADE]) == []
    assert default_winners(CPU, []) == []


HOSTILE = {
    "nothing": "",
    "not JSON": "{",
    "a list": "[]",
    "deep": "[" * 100_000,
    "another kind": json.dumps(DATA | {"kind": "mdtensor store"}),
    "another version": json.dumps(DATA | {"version": 2}),
    "a field more": json.dumps(DATA | {"run": "rm -rf /"}),
    "no device": json.dumps({k: v for k, v in DATA.items() if k != "device"}),
    "a text for a number": json.dumps(DATA | {"generator": "3"}),
    "a number that is none": json.dumps(DATA | {"version": float("nan")}),
    "digits": json.dumps(DATA)[:-1] + ', "x": ' + "9" * 5000 + "}",
    "cores": json.dumps(DATA | {"device": DATA["device"] | {"cores": 1 << 70}}),
    "too many": json.dumps(DATA | {"structures": [DATA["structures"][0]] * 70_000}),
}


def with_winner(**fields: object) -> str:
    winner = DATA["structures"][0]["winners"][0] | fields
    structure = DATA["structures"][0] | {"winners": [winner]}
    return json.dumps(DATA | {"structures": [structure]})


WRONG_WINNERS = [
    {"problem": ""},
    {"problem": "x" * 100_000},
    {"problem": None},
    {"seconds": -1.0},
    {"seconds": float("inf")},
    {"seconds": "1"},
    {"schedule": {}},
    {"schedule": "{}"},
    {"environment": "here"},
]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_file_of_defaults_is_refused(name: str) -> None:
    with pytest.raises(StoreError, match="no file of defaults: "):
        defaults_in(HOSTILE[name])


@pytest.mark.parametrize("fields", WRONG_WINNERS, ids=lambda each: str(each)[:30])
def test_a_wrong_winner_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(StoreError, match="no file of defaults: "):
        defaults_in(with_winner(**fields))


def test_hostile_schedules_are_values_or_refused() -> None:
    refused = 0
    for _, text in hostile_texts(data_of(plain(SHAPES[0]))):
        whole = with_winner(schedule="here").replace('"here"', text or "null")
        try:
            rows = defaults_in(whole).rows()
        except StoreError:
            refused += 1
        else:
            assert len(rows) == 1
    assert refused > 100


def test_files_that_cannot_be_read_or_written_are_typed_errors(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "huge.json").write_bytes(b" " * ((16 << 20) + 1))
    os.mkfifo(tmp_path / "pipe.json")
    os.symlink("loop.json", tmp_path / "loop.json")
    for name in ("missing.json", ".", "binary.json", "huge.json", "pipe.json", "loop.json"):
        with pytest.raises(StoreError, match=r"cannot read|no file of defaults"):
            read(tmp_path / name)
    with pytest.raises(StoreError, match="cannot write"):
        write(tmp_path / "no folder" / "a.json", MADE)


def test_damaged_files_of_the_package_are_warned_of_and_left(tmp_path: Path) -> None:
    write(tmp_path / "a.json", MADE)
    (tmp_path / "b.json").write_text("{}")
    (tmp_path / "c.txt").write_text("{}")
    with pytest.warns(StoreWarning, match=r"b\.json: no file of defaults"):
        assert shipped(tmp_path) == (MADE,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shipped(tmp_path) == (MADE,)


def test_the_package_brings_only_files_that_can_be_read() -> None:
    files = sorted(defaults_file.FOLDER.glob("*.json"))
    assert [read(file) for file in files] == [*shipped()]


def test_untuned_shapes_and_searches_know_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    device = registry.engine_for().device
    here, exact, far = product(40, 24, 56), product(41, 23, 50), product(400, 240, 560)
    made = defaults_of([winner_of(each) for each in (here, exact, far)], device.target)
    monkeypatch.setattr(defaults_file, "shipped", lambda: (made,))
    store = Store.in_memory()
    engine = Engine(device, lambda: store)
    store.set_winner(problem_key(here), engine.environment, plain(here).to_json(), seconds=1.0)
    found = [(each.extents, each.row.environment) for each in engine.neighbours(exact)]
    default = made.rows()[0].environment
    assert found == [
        ((41, 23, 50), default),
        ((40, 24, 56), engine.environment),
        ((40, 24, 56), default),
        ((400, 240, 560), default),
    ]
    assert engine.winner(exact) is None, "defaults are no winners of this device"
