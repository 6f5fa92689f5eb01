"""Counters of energy, as Linux shows them in files."""

from __future__ import annotations

from pathlib import Path

from mdtensor.backends.host.energy_counter import EnergyCounter


def package(root: Path, name: str, energy: int, limit: int = 1_000_000) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "max_energy_range_uj").write_text(f"{limit}\n")
    (folder / "energy_uj").write_text(f"{energy}\n")
    return folder / "energy_uj"


def test_all_packages_count_and_their_parts_do_not(tmp_path: Path) -> None:
    first = package(tmp_path, "intel-rapl:0", 100)
    second = package(tmp_path, "intel-rapl:1", 999_000)
    package(tmp_path, "intel-rapl:0:0", 5)
    counter = EnergyCounter.found(tmp_path)
    assert counter is not None
    before = counter.read()
    assert before == (100, 999_000)
    first.write_text("500100\n")
    second.write_text("1000\n")  # which began anew
    assert counter.joules_since(before) == 0.5 + 0.002


def test_there_is_none_where_there_are_no_files_or_other_ones(tmp_path: Path) -> None:
    assert EnergyCounter.found(tmp_path / "nowhere") is None
    assert EnergyCounter.found(tmp_path) is None
    package(tmp_path, "intel-rapl:0", 1).write_text("no number")
    assert EnergyCounter.found(tmp_path) is None
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert EnergyCounter.found(tmp_path) is None
