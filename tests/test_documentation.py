"""What the documentation promises about the repository."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

import mdtensor
from mdtensor.lower.gpu.base import gpu_kind
from mdtensor.lower.gpu.space import gpu_kinds
from tests.tables import tables_in

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PAGES = [ROOT / "README.md", CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "mdtensor").rglob("*.py"))
RECIPES = (
    *("An operator", "A front end", "A dtype", "A device"),
    *("A tuning parameter", "A GPU kind"),
)
MOST_LINKS = 6  # of a paragraph that one can read
MOST_WORDS = 1500  # of a page, without tables, that takes less than ten minutes
MOST_TERMS = 60
MOST_OF_A_DECISION = 15  # words of its line in the index


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8"))
    files = [target for target in targets if not target.startswith("http")]
    assert not [target for target in files if not (page.parent / target).exists()]


FIGURE = re.compile(r"\d (?:[nµm]s|[GT]FLOP/s|GB/s)\b|\| (?:µs|ms) \|")
RESULT = re.compile(r"\]\([./]*bench/results/(?:\w+/)?\d{4}-\d\d-\d\d-[^)]+\)")


def without_source(text: str) -> list[str]:
    """Paragraphs with times and rates, and sections with tables of them, that link no result."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    sections = re.split(r"^(?=#)", prose, flags=re.MULTILINE)
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    return [part for part in (*sections, *lines) if FIGURE.search(part) and not RESULT.search(part)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_name_their_results_and_claims_their_tests(page: Path) -> None:
    """A result's name has a processor and a date; decisions are history, and keep their figures."""
    text = page.read_text(encoding="utf-8")
    assert page.parent.name == "adr" or not without_source(text)
    named = re.findall(r"`(test_\w+)`", text)
    assert not [name for name in named if f"def {name}(" not in all_tests()]


def test_figures_without_a_source_are_found() -> None:
    linked = "A call takes 3 µs ([log](../bench/results/2026-11-22-a-cpu.log)).\n"
    table = "# Speed\n\n| call | µs |\n|---|--:|\n| einsum | 3 |\n"
    assert without_source("A call takes 3 µs.") == ["A call takes 3 µs."] * 2
    assert without_source(table) == [table]
    assert without_source(f"{linked}\nIt moves 5 GB/s.") == ["It moves 5 GB/s."]
    assert not without_source(f"{table}{linked}")


@functools.cache
def all_tests() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {
        (ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", index)
    }
    assert {page.resolve() for page in PAGES} - linked == {ROOT / "docs" / "index.md"}


def test_every_decision_has_a_line_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").partition("## Decisions")[2]
    lines = re.findall(r"^- \[(.+)\]\((adr/.+?)\): (.+)\.$", index, flags=re.MULTILINE)
    assert sorted((file, f"# {title}") for title, file, _ in lines) == [
        (f"adr/{page.name}", page.read_text(encoding="utf-8").partition("\n")[0])
        for page in PAGES
        if page.parent.name == "adr"
    ]
    assert not [says for _, _, says in lines if len(says.split()) > MOST_OF_A_DECISION]


def test_the_reference_has_every_public_name_once() -> None:
    """Names of a module are listed by the module, and Sphinx fails where there is no such name."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    listed = re.findall(r"^\.\. auto\w+:: mdtensor\.(\w+)$", text, flags=re.MULTILINE)
    assert sorted(listed) == sorted({*mdtensor.__all__, "directive", "jax", "torch"})


def test_every_folder_of_the_package_is_a_stage() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    folders = {path.parent.name for path in (ROOT / "mdtensor").glob("*/__init__.py")}
    assert folders == set(re.findall(r"^\| \[(\w+)/\]", text, flags=re.MULTILINE))


def test_every_room_is_on_the_map() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
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


def listed_tables() -> dict[str, dict[str, str]]:
    """The tables of docs/caches.md, by file and name, with what their rows say."""
    text = (ROOT / "docs" / "caches.md").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = {}
    row = r"^\| ((?:`\w+`(?:, )?)+) \| \[([\w/.]+)\]\(\.\./mdtensor/\2\) \| (.+) \|$"
    for names, file, says in re.findall(row, text, flags=re.MULTILINE):
        found.setdefault(file, {}).update(dict.fromkeys(re.findall(r"\w+", names), says))
    return found


def test_every_table_is_on_the_page_of_caches() -> None:
    listed = listed_tables()
    found = {p.relative_to(ROOT / "mdtensor").as_posix(): tables_in(p) for p in SOURCES}
    assert {file: {*names} for file, names in found.items() if names} == {
        file: {*names} for file, names in listed.items()
    }
    wrong = [
        (file, name, bound)
        for file, names in found.items()
        for name, bound in names.items()
        if bound is not None and str(bound) not in re.findall(r"\d+", listed[file][name])
    ]
    assert not wrong


def test_tables_of_every_kind_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        """
SIZE = 7
_listed: dict[str, int] = {}
_constant = {"a": 1}
_bounded = Bounded[str, int](SIZE)
names = set()
@functools.lru_cache(maxsize=8)
def memoized(): pass
@cache
def once(): pass
class C:
    field: dict[str, int] = field(default_factory=dict[str, int])
    text: str = ""
    def __init__(self):
        self.table: dict[str, int] = {}
        self.kept = lru_cache(SIZE)(self.f)
        local = {}
""",
        encoding="utf-8",
    )
    assert tables_in(path) == {
        "_listed": None,
        "_bounded": 7,
        "names": None,
        "memoized": 8,
        "once": None,
        "field": None,
        "table": None,
        "kept": 7,
    }


def paragraphs(page: Path) -> list[str]:
    """The texts of a page that are no tables."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return [line for line in text.splitlines() if line and not line.startswith("|")]


def names_in(path: Path) -> set[str]:
    """The names that a file defines, those of a class behind its own."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(
                    prefix + name.id
                    for target in targets
                    for name in ast.walk(target)
                    if isinstance(name, ast.Name)
                )

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def symbols(text: str) -> list[tuple[str, str]]:
    """Symbols that links name, with the files that they lead to."""
    return re.findall(r"\[`([\w.]+)`\]\(([^)#\s]+\.py)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_on_a_symbol_leads_to_its_file(page: Path) -> None:
    linked = symbols(page.read_text(encoding="utf-8"))
    files = {target: names_in(page.parent / target) for _, target in linked}
    assert not [(name, target) for name, target in linked if name not in files[target]]


def test_a_symbol_that_moved_is_found() -> None:
    assert "Schedule.to_json" in names_in(ROOT / "mdtensor/lower/schedule/schedule.py")
    assert "KINDS" in names_in(ROOT / "mdtensor/lower/gpu/space/gpu_kinds.py")
    assert "Schedule" not in names_in(ROOT / "mdtensor/lower/gpu/space/gpu_kinds.py")


def test_architecture_is_read_in_ten_minutes() -> None:
    texts = paragraphs(ARCHITECTURE)
    assert not [text for text in texts if text.count("](") > MOST_LINKS]
    assert len(" ".join(texts).split()) <= MOST_WORDS


def source_of(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def test_every_kind_of_the_gpu_is_among_the_patterns() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rows = text.partition("## Patterns")[2].partition("\n## ")[0]
    listed = {
        name
        for kinds in re.findall(r"GPU kinds? ([^|:]+)", rows)
        for name in re.findall(r"`(\w+)`", kinds)
    }
    assert listed == {kind.name for kind in gpu_kinds.KINDS}
    modules = set(re.findall(r"^from (\S+_kinds?) import", source_of(gpu_kinds), re.MULTILINE))
    of_folders = [
        (module.split(".")[-2], kind)
        for module in modules
        for kind in vars(importlib.import_module(module)).values()
        if isinstance(kind, gpu_kind.GpuKind)
    ]
    assert len(of_folders) == len(gpu_kinds.KINDS)
    for folder, kind in of_folders:
        assert kind in gpu_kinds.KINDS
        row = rf"GPU kinds?[^|]*`{kind.name}`[^|]*\(\[folder\]\([./\w]+/lower/gpu/{folder}\)\)"
        assert len(re.findall(row, rows)) == 1


def test_the_glossary_has_theory_term_and_file_for_every_word() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] != "word here"]
    assert 30 <= len(rows) <= MOST_TERMS
    assert len({row[0] for row in rows}) == len(rows)
    assert not [row for row in rows if len(row) != 4 or not all(row) or len(symbols(row[3])) != 1]


@pytest.mark.parametrize("what", RECIPES)
def test_a_recipe_is_a_numbered_list_of_files(what: str) -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8").partition("## How to add …")[2]
    recipe = text.partition(f"### {what}\n")[2].partition("\n### ")[0]
    steps = re.findall(r"^(\d+)\. (.+)$", recipe, flags=re.MULTILINE)
    assert [int(number) for number, _ in steps] == [*range(1, len(steps) + 1)]
    assert len(steps) >= 5
    assert not [step for _, step in steps if not re.search(r"\]\([\w./]+", step)]
    assert re.search(r"^\d+\. Tests: .*\]\(tests/", recipe, flags=re.MULTILINE)


def test_sentences_that_were_rewritten_are() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[[\w.]+\]\((mdtensor/.+?)\) \| (.+) \| (.+) \|$", text, flags=re.MULTILINE
    )
    assert len(rows) == 15

    def words(path: str) -> str:
        return " ".join((ROOT / path).read_text(encoding="utf-8").replace("#", " ").split())

    assert not [before for path, before, _ in rows if before in words(path)]
    assert not [after for path, _, after in rows if after not in words(path)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_that_a_text_names_are_there(path: Path) -> None:
    stages = "api|autotune|backends|kernels|lower|passes|translate"
    text = path.read_text(encoding="utf-8")
    named = re.findall(rf"`(?:mdtensor\.)?((?:{stages})(?:\.\w+)+)`", text)
    assert not [name for name in named if not is_there(f"mdtensor.{name}")]


def is_there(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something in one."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_the_source_distribution_holds_the_repository() -> None:
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    grafted = {line.removeprefix("graft ") for line in lines if line.startswith("graft ")}
    assert {"bench", "docs", "examples", "tests"} <= grafted
    assert not [line for line in lines if line.startswith(("prune ", "exclude "))]
    included = [name for line in lines if line.startswith("include ") for name in line.split()[1:]]
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "Makefile"} <= {*included}
    assert not [name for name in (*grafted, *included) if not (ROOT / name).exists()]
