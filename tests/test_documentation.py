"""What the documentation promises about the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8"))
    files = [target for target in targets if not target.startswith("http")]
    assert not [target for target in files if not (page.parent / target).exists()]


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {
        (ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", index)
    }
    assert {page.resolve() for page in PAGES} - linked == {ROOT / "docs" / "index.md"}


def test_every_folder_of_the_package_is_a_stage() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in (ROOT / "mdtensor").glob("*/__init__.py")}
    assert folders == set(re.findall(r"^\| \[(\w+)/\]", text, flags=re.MULTILINE))


def test_every_room_is_on_the_map() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| \[([\w/]+/\w+)/\]\(\.\./mdtensor/\1\) \| (.+) \|$", text, flags=re.MULTILINE
    )
    package = ROOT / "mdtensor"
    rooms = {
        path.parent.relative_to(package).as_posix(): path.read_text(encoding="utf-8").strip()
        for stage in ("api", "autotune", "backends", "lower")
        for path in (package / stage).glob("*/**/__init__.py")
    }
    assert rooms == {room: f'"""{holds}"""' for room, holds in listed}


def test_the_readme_has_a_place_for_measurements() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"<!-- bench:begin -->\n(.*\n)+?<!-- bench:end -->", text)) == 1


def test_every_environment_variable_is_documented() -> None:
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "mdtensor").rglob("*.py"))
    used = set(re.findall(r"\bMDTENSOR_[A-Z_]+\b", sources))
    documented = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    assert used
    assert not {name for name in used if name not in documented}
