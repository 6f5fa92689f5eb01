"""A few tries of each campaign of what processes and caches must survive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.survival import crowd, damage, exits, forks
from tests.api.survival.__main__ import main


@pytest.mark.parametrize(
    ("campaign", "tries"),
    [(forks, 10), (exits, 4), (crowd, 4), (damage, 12)],
    ids=["forks", "exits", "crowd", "damage"],
)
def test_what_processes_survive(campaign, tries: int, tmp_path: Path) -> None:
    assert list(campaign.survived(tries, 0, tmp_path)) == [""] * tries


def test_a_campaign_says_what_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exits, "_PROGRAM", "os.abort()")
    report = tmp_path / "report.json"
    assert main(["--exits", "1", "--report", str(report)]) == 1
    assert "code=-6" in report.read_text(encoding="utf-8")
