from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mdtensor
from mdtensor.api.cli import devices_command
from mdtensor.api.cli.main import app
from mdtensor.api.engine import registry
from mdtensor.autotune.defaults import defaults_file
from mdtensor.autotune.store.exported_rows import EXPORT_HEADER
from mdtensor.autotune.trial import Trial
from mdtensor.backends.host.binary_cache import BlobStore, folder_of_kept
from mdtensor.backends.protocol import ComputeDevice
from mdtensor.backends.select import UsableDevice
from mdtensor.errors import NoDeviceError, StoreWarning
from mdtensor.lower.schedule.schedule import Schedule
from tests import children
from tests.api import stand_in_bench

PROBLEM = "mul/add 64,128+,32 float32(128,1,0) float32(0,32,1) -> float32(32,0,1) #469112ed"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in measures what is tuned."""
    stand_in_bench.use(stand_in_bench.Bench(), monkeypatch)


def run(*arguments: str, code: int = 0) -> str:
    """What a command writes to standard output; to standard error too where it must fail."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def with_tile(tile: int) -> str:
    """A schedule of one dim."""
    return Schedule("cpu", (1,), (tile,), (1,), (1,), -1, 1, (0,), (), (0,), ("",)).to_json()


def remember(*seconds: float, problem: str = "dot[n:64]") -> None:
    """Put trials and their winner into the store."""
    for number, each in enumerate(seconds):
        registry.store().record_trial(problem, "cpu-1", with_tile(number), Trial("ok", each))
    best = min(seconds)
    registry.store().set_winner(problem, "cpu-1", with_tile(0), seconds=best, trials=len(seconds))


@pytest.mark.process
def test_help_needs_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['mdtensor', '--help']\n"
        "from mdtensor.api.cli.main import main\n"
        "try: main()\n"
        "finally: print(*{name.partition('.')[0] for name in sys.modules})"
    )
    end = children.run("-c", program)
    *usage, loaded = end.lines
    assert usage[0] == "Usage: mdtensor [OPTIONS] COMMAND [ARGS]..."
    for command in ("devices", "tune", "cache", "explain", "bench", "demo"):
        assert f"\n  {command} " in end.out
    assert not {"numpy", "rich", "pyopencl", "cupy", "sqlite3", "opt_einsum"} & {*loaded.split()}


def test_the_version_is_told() -> None:
    assert run("--version") == f"mdtensor {mdtensor.__version__}\n"


@pytest.mark.process
def test_the_module_is_the_program() -> None:
    said = children.run("-m", "mdtensor", "--version").out
    assert said == f"mdtensor {mdtensor.__version__}\n"


@pytest.mark.process
def test_a_console_of_ascii_gets_escapes(own_cache: Path) -> None:
    remember(2e-6)
    end = children.run("-m", "mdtensor", "cache", "ls", env={"PYTHONIOENCODING": "ascii"})
    assert r"2.00 \xb5s" in end.out


@pytest.mark.process
def test_what_is_too_large_is_no_traceback() -> None:
    call = ("i,j,k->ijk", "100000", "100000", "100000")
    assert run("bench", *call, code=1).startswith("MemoryError: Unable to allocate ")
    assert run("explain", "i->", "9" * 20, code=2) == (
        "ShapeError: '99999999999999999999' is larger than any array\n"
        "  hint: extents such as 64,128 (or 64,128:f8 with a type of its own, () for a scalar)\n"
    )


def test_an_empty_result_is_explained() -> None:
    assert run("explain", "ij->i", "0,3") == (
        "nothing is computed: float32[0] is empty, or filled with zeros\n"
    )


@pytest.mark.process
def test_a_device_that_is_not_there_is_named() -> None:
    program = "from mdtensor.api.cli.main import main; main()"
    words = "-c", program, "explain", "ij->i", "3,4"
    end = children.run(*words, env={"MDTENSOR_DEVICE": "abacus"}, code=1)
    assert end.out == ""
    assert end.err.startswith("NoDeviceError: no device for numpy arrays is called 'abacus'")
    assert (
        "\n  hint: name a part of one of these, by mdtensor.device(…), --device or"
        " MDTENSOR_DEVICE\n" in end.err
    )


def test_devices_shows_facts_and_the_default() -> None:
    heading, *rows = run("devices").splitlines()
    assert heading.split() == [
        "device", "arrays", "kind", "cores", "vector", "L1", "L2", "L3", "local", "default",
    ]  # fmt: skip
    assert rows
    assert sum(row.split()[-1] == "yes" for row in rows) == 1


def test_devices_says_why_none_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDTENSOR_DEVICE", "cuda")
    heading, *rows, caption = run("devices").splitlines()
    assert heading.split()[-1] == "default"
    assert all(row.split()[-1] != "yes" for row in rows)
    assert caption.strip() == "no device for numpy arrays is called 'cuda'"


def test_a_device_that_cannot_be_opened_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> ComputeDevice:
        raise NoDeviceError("broken cannot be opened: out of memory")

    found = [*devices_command.found_devices(), UsableDevice("broken", "numpy", refused, "opencl")]
    monkeypatch.setattr(devices_command, "found_devices", lambda: found)
    *rows, caption = run("devices").splitlines()
    assert rows[-1].split() == ["broken", "numpy"]
    assert caption.strip() == "broken cannot be opened: out of memory"


def test_no_device_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise NoDeviceError("no device", hint="pip install 'mdtensor[opencl]'")

    monkeypatch.setattr(devices_command, "found_devices", nothing)
    shown = run("devices", code=1)
    assert shown == "NoDeviceError: no device\n  hint: pip install 'mdtensor[opencl]'\n"


def test_explain_shows_all_stages() -> None:
    shown = run("explain", "ij,jk->ik", "64,128", "128,32")
    assert shown.startswith(
        "md_hom\n"
        "  out_view(out: float32[64, 32] (i, j, k) -> (i, k))\n"
        "  md_hom[i:64, j:128, k:32](mul, (cc, pw(add), cc))\n"
        "  inp_view(A: float32[64, 128] (i, j, k) -> (i, j);"
        " B: float32[128, 32] (i, j, k) -> (j, k))\n"
        "problem\n"
        f"  {PROBLEM}\n"
        "schedule (from the cost model, general kernel)\n"
        "  cpu: parts "
    )
    headings = [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")]
    assert headings == ["md_hom", "problem", "schedule", "cost", "source"]
    assert "  estimated " in shown
    assert "kernel_0(" in shown


def test_explain_shows_all_passes() -> None:
    shown = run("explain", "--passes", "ij,jk->ik", "64,128", "128,32")
    headings = [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")]
    assert headings == ["md_hom", "problem", "schedule", "cost", "passes"]
    assert "\n  split complex numbers: changes nothing\n  flatten: MDHom -> Problem\n" in shown
    assert "    dims i:64 j:128+ k:32\n" in shown


def test_explain_takes_types() -> None:
    shown = run("explain", "ij,jk->ik", "4,5:i4", "5,6", "--dtype", "f8")
    assert "A: int32[4, 5]" in shown
    assert "B: float64[5, 6]" in shown


MALFORMED = {
    ("ij,jk->ik", "2,3", "4,3"): (
        "SubscriptError: index 'j' has extent 3 in operand 0 but 4 in operand 1\n"
        "  ij,jk->ik\n"
        "   ^ ^\n"
        "  operand 0: (2, 3) float32    operand 1: (4, 3) float32\n"
        "  hint: 'ij,kj->ik' fits these shapes\n"
    ),
    ("ij,jk->ik", "2,3"): (
        "SubscriptError: the string has 2 terms for 1 operand\n"
        "  ij,jk->ik\n"
        "     ^\n"
        "  operand 0: (2, 3) float32\n"
        "  hint: terms are separated by commas, one for each operand\n"
    ),
    ("ij->i", "2,3,4"): (
        "SubscriptError: operand 0 has 3 axes but 2 indices\n"
        "  ij->i\n"
        "  ^^\n"
        "  operand 0: (2, 3, 4) float32\n"
        "  hint: '...ij->...i' broadcasts over the other axes\n"
    ),
    ("ij->i", "2"): (
        "SubscriptError: operand 0 has 1 axis but 2 indices\n"
        "  ij->i\n"
        "   ^\n"
        "  operand 0: (2,) float32\n"
        "  hint: one index for each axis\n"
    ),
    ("ij->k", "2,3"): (
        "SubscriptError: index 'k' of the output is in no operand\n"
        "  ij->k\n"
        "      ^\n"
        "  hint: the operands have 'i', 'j'\n"
    ),
    ("ij->ii", "2,3"): (
        "SubscriptError: index 'i' appears twice in the output\n"
        "  ij->ii\n"
        "      ^^\n"
        "  hint: a result has one axis per index; write a diagonal with an index of its own\n"
    ),
    ("i!->i", "2,3"): (
        "SubscriptError: '!' is no index\n"
        "  i!->i\n"
        "   ^\n"
        "  hint: indices are the letters a-z and A-Z; between them stand ',', '->' and '...'\n"
    ),
    ("ij->i->j", "2,3"): (
        "SubscriptError: an einsum string has at most one '->'\n  ij->i->j\n    ^  ^\n"
    ),
    ("i.j->i", "2,3"): (
        "SubscriptError: a '.' that is not part of an ellipsis\n"
        "  i.j->i\n"
        "   ^\n"
        "  hint: write '...' for the dims that broadcast\n"
    ),
    ("ii->i", "2,3"): (
        "SubscriptError: index 'i' has extents 2 and 3 in operand 0\n"
        "  ii->i\n"
        "  ^^\n"
        "  operand 0: (2, 3) float32\n"
        "  hint: a diagonal needs axes of one extent\n"
    ),
    ("...i->i", "2,3"): (
        "SubscriptError: the output lacks the ellipsis, which stands for 1 dim\n"
        "  ...i->i\n"
        "  ^\n"
        "  operand 0: (2, 3) float32\n"
        "  hint: '...i->...i' keeps them; to sum over them, give them letters\n"
    ),
    ("ij->i", "2by3"): (
        "ShapeError: '2by3' is no shape\n"
        "  hint: extents such as 64,128 (or 64,128:f8 with a type of its own, () for a scalar)\n"
    ),
    ("h+r -> h", "16"): (
        "SubscriptError: the extents of 'h' and 'r' cannot be told from the shapes\n"
        "  h+r -> h\n"
        "  ^\n"
        "  operand 0: (16,) float32\n"
        "  hint: give one by r=…, or by an operand that has 'r' alone on an axis\n"
    ),
    ("2h+r, r -> h x", "16", "3"): (
        "SubscriptError: index 'x' of the output is in no operand\n"
        "  2h+r, r -> h x\n"
        "               ^\n"
        "  operand 0: (16,) float32    operand 1: (3,) float32\n"
        "  hint: the operands have 'h', 'r'; x=… adds a dim\n"
    ),
    ("h+r, r -> h", "16", "3", "h=15"): (
        "SubscriptError: index 'h+r' of operand 0 runs from 0 to 16, but its axis has extent 16\n"
        "  h+r, r -> h\n"
        "  ^\n"
        "  operand 0: (16,) float32    operand 1: (3,) float32\n"
        "  hint: h=… makes it end earlier\n"
    ),
    ("h+r -> h", "16", "r=x"): (
        "ShapeError: 'r=x' is no extent\n  hint: a dim's name and a number, such as r=3\n"
    ),
    ("ij->i", "2,3:f5"): ("DTypeError: 'f5' is no element type\n  hint: such as f4, float64, i1\n"),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("command", ["explain", "tune", "bench"])
@pytest.mark.parametrize("call", MALFORMED, ids=" ".join)
def test_a_malformed_call_shows_where_and_a_way_out(command: str, call: tuple[str, ...]) -> None:
    assert run(command, *call, code=2) == MALFORMED[call]


@pytest.mark.usefixtures("measured")
def test_tuning_happens_once(own_cache: Path) -> None:
    call = ("tune", "ij,jk->ik", "64,128", "128,32", "--budget", "4", "--quiet")
    *_, summary = run(*call).splitlines()
    assert summary.startswith("1 computation tuned, 0 from the cache: ")
    assert run(*call).splitlines() == [
        "ij,jk->ik 64,128 128,32: from the cache, 0 trials",
        "everything came from the cache: 1 computation, 0 trials",
    ]
    assert PROBLEM in run("cache", "ls")
    assert "schedule (from the store: tuned)" in run("explain", *call[1:4])


def test_tune_reads_a_file(own_cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "shapes.txt"
    file.write_text("# two\nij->i 30,40\nij,j->i 30,40 40\n", encoding="utf-8")
    lines = run("tune", "--file", str(file), "--budget", "0", "--quiet").splitlines()
    assert lines == [
        "1 of 2: ij->i 30,40: not tuned, the budget had no time for it",
        "2 of 2: ij,j->i 30,40 40: not tuned, the budget had no time for it",
        "0 computations tuned, 0 from the cache, 2 not tuned: 0 trials in 0 s",
    ]


def test_no_line_of_a_file_is_tuned_before_all_are_right(own_cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "shapes.txt"
    file.write_text("ij->i 30,40\nij,j->i 30,40 40\nij,jk->ik 3,4 5,6\n", encoding="utf-8")
    shown = run("tune", "--file", str(file), "--budget", "3600", "--quiet", code=2)
    assert f"{file}, line 3: index 'j' has extent 4 in operand 0 but 5 in operand 1" in shown
    assert PROBLEM not in run("cache", "ls")


@pytest.mark.parametrize("arguments", [(), ("ij->i", "3,4", "--file", "shapes.txt")])
def test_tune_takes_an_expression_or_a_file(arguments: tuple[str, ...]) -> None:
    assert "say either EXPR SHAPE... or --file FILE" in run("tune", *arguments, code=2)


@pytest.mark.usefixtures("device_chosen_here")
def test_tune_takes_a_part_of_a_devices_name(own_cache: Path) -> None:
    shown = run("tune", "ij->i", "30,40", "--budget", "0", "--quiet", "--device", "OPENCL")
    assert shown.startswith("ij->i 30,40: ")
    shown = run("tune", "ij->i", "30,40", "--device", "abacus", code=1)
    assert "NoDeviceError: no device is called 'abacus'" in shown
    assert "available: " in shown


def test_bench_compares_an_expression() -> None:
    shown = run("bench", "ij,jk->ik", "16,16", "16,16")
    assert {"ns", "µs"}.issuperset(shown.split()[-8:][0:1])
    assert "untuned" in shown
    assert "16,16 16,16" in shown


def test_sums_for_indices_are_timed_explained_and_tuned(own_cache: Path, tmp_path: Path) -> None:
    call = ("n 2h+r w+s c, k r s c -> n h w k", "1,9,9,2", "3,3,3,2")
    row = run("bench", *call).splitlines()[-1].split()
    assert row[-4] == "-", "no matrix product says it"
    assert float(row[-1]) > 0
    assert "md_hom[n:1, h:4, r:3, w:7, s:3, c:2, k:3]" in run("explain", *call)
    shown = run("bench", "h+r -> h", "64", "r=3")
    assert "64 r=3" in shown
    assert "(h, r) -> (h+r)" in run("explain", "h+r -> h", "64", "r=3")
    file = tmp_path / "shapes.txt"
    file.write_text("'h+r -> h'  64 r=3  # a box\n", encoding="utf-8")
    lines = run("tune", "--file", str(file), "--budget", "0", "--quiet").splitlines()
    assert lines[0].startswith("h+r -> h 64 r=3: ")


def test_bench_of_a_gather_has_no_peers() -> None:
    *_, row = run("bench", "@1 d, b -> b d", "64,4", "3:i8").splitlines()
    assert row.split()[-4:] == ["-", "-", "-", "-"]


def test_semirings_are_tuned_explained_and_timed(
    own_cache: Path, tmp_path: Path, measured: None
) -> None:
    call = ("ij,jk->ik", "12,13", "13,14", "--semiring", "min_plus")
    shown = run("tune", *call, "--budget", "4", "--quiet")
    assert shown.startswith("ij,jk->ik 12,13 13,14 semiring=min_plus: ")
    shown = run("explain", *call)
    assert "md_hom[i:12, j:13, k:14](total, (cc, pw(lesser), cc))" in shown
    assert "schedule (from the store: tuned)" in shown
    *_, row = run("bench", *call).splitlines()
    assert "12,13 13,14 semiring=min_plus " in row
    assert row.split()[-4:] == ["-", "-", "-", "-"], "NumPy has no such einsum"
    file = tmp_path / "shapes.txt"
    file.write_text("ij->i 9,8 semiring=bool\nij,jk->ik 12,13 13,14\n", encoding="utf-8")
    lines = run("tune", "--file", str(file), "--budget", "0", *call[-2:], "--quiet").splitlines()
    assert lines[0].startswith("1 of 2: ij->i 9,8 semiring=bool: ")
    assert lines[1] == "2 of 2: ij,jk->ik 12,13 13,14 semiring=min_plus: from the cache, 0 trials"


@pytest.mark.parametrize("command", ["explain", "tune", "bench"])
def test_an_unknown_semiring_is_a_wrong_call(command: str) -> None:
    assert run(command, "ij->i", "3,4", "--semiring", "tropical", code=2) == (
        "TranslationError: unknown semiring 'tropical'\n"
        "  hint: one of min_plus, max_plus, max_times, logsumexp, bool, or f=… and combine=…\n"
    )


def test_cache_path_is_in_the_directory_chosen(own_cache: Path) -> None:
    assert run("cache", "path") == f"{own_cache / 'tuning.sqlite3'}\n"


def test_cache_ls_of_nothing_says_so(own_cache: Path) -> None:
    result = CliRunner().invoke(app, ["cache", "ls"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing is tuned yet: see mdtensor tune --help\n"


def test_cache_moves_from_store_to_store(own_cache: Path, tmp_path: Path) -> None:
    remember(3e-6, 2e-6)
    remember(5e-6, problem="dot[n:65]")
    listed = run("cache", "ls").splitlines()
    assert [line.split()[:4] for line in listed[1:]] == [
        ["dot[n:64]", "cpu-1", "2.00", "µs"],
        ["dot[n:65]", "cpu-1", "5.00", "µs"],
    ]
    file = tmp_path / "rows.jsonl"
    assert run("cache", "export", str(file)) == f"5 rows written to {file}\n"
    assert json.loads(file.read_text(encoding="utf-8").splitlines()[0])["kind"] == "mdtensor store"
    BlobStore(folder_of_kept("tuned")).put("key", b"program")
    assert run("cache", "prune", "--everything") == "5 rows removed\n"
    assert run("cache", "ls") == ""
    assert not folder_of_kept("tuned").exists()
    assert run("cache", "import", str(file)) == f"5 rows read from {file}\n"
    again = run("cache", "ls").splitlines()
    assert [line.split()[:6] for line in again] == [line.split()[:6] for line in listed]


def test_report_is_on_expressions_or_on_the_store(own_cache: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    remember(3e-6, 2e-6)
    assert run("report", str(page)) == f"report written to {page}\n"
    assert "dot[n:64]" in page.read_text(encoding="utf-8")
    words = ("ij,jk->ik", "4,5", "5,6")
    assert run("report", str(page), *words, "--peers") == f"report written to {page}\n"
    text = page.read_text(encoding="utf-8")
    assert "md_hom[i:4, j:5, k:6](mul, (cc, pw(add), cc))" in text
    assert "numpy.matmul" in text
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("ij,jk->ik 4,5 5,6\nij->i 4,5\n", encoding="utf-8")
    run("report", str(page), "--file", str(shapes), "--pictures", str(tmp_path / "svg"))
    drawn = sorted(p.name for p in (tmp_path / "svg").iterdir())
    assert drawn == [f"{n}-{name}.svg" for n in (0, 1) for name in ("decomposition", "roofline")]
    assert "2 computations" in page.read_text(encoding="utf-8")


def test_report_is_on_what_a_program_computes(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    page, program = tmp_path / "page.html", tmp_path / "program.py"
    lines = "import mdtensor, numpy, sys", "n = int(sys.argv[1])", "x = numpy.ones(n)"
    program.write_text("\n".join((*lines, "mdtensor.einsum('i,i->', x, x)")), encoding="utf-8")
    said = f"report on 1 computation written to {page}\n"
    assert run("report", str(page), "--run", str(program), "19") == said
    assert "md_hom[i:19]" in page.read_text(encoding="utf-8")
    page.unlink()
    run("report", str(page), "--run", str(program), "no number", code=1)
    for end, code in (("sys.exit(3)", 3), ("sys.exit()", 0)):
        program.write_text(f"import sys; {end}", encoding="utf-8")
        run("report", str(page), "--run", str(program), code=code)
        assert page.exists() is (code == 0)
    assert "there is no file" in run("report", str(page), "--run", "missing.py", code=2)
    assert "needs a program" in run("report", str(page), "--run", code=2)


def test_report_refuses_what_it_cannot_do(own_cache: Path, tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    assert "say either EXPR" in run("report", page, "i->", "4", "--file", "x", code=2)
    assert "--peers needs" in run("report", page, "--peers", code=2)
    assert "SubscriptError" in run("report", page, "i->>", "4", code=2)
    missing = str(tmp_path / "no folder" / "page.html")
    assert "ReportError: cannot write" in run("report", missing, code=1)
    assert not Path(page).exists()


def test_cache_learn_makes_a_file_of_defaults(own_cache: Path, tmp_path: Path) -> None:
    file, engine = tmp_path / "made.json", registry.engine_for()
    for key, confirmed in ((PROBLEM, True), ("another", False)):
        registry.store().set_winner(
            key, engine.environment, with_tile(8), seconds=1e-3, confirmed=confirmed
        )
    said = f"1 winner of 1 structure written to {file}\n"
    assert run("cache", "learn", "--out", str(file)) == said
    (row,) = defaults_file.read(file).rows()
    assert (row.problem, row.seconds, row.confirmed) == (PROBLEM, 1e-3, True)
    missing = tmp_path / "no folder" / "made.json"
    assert "cannot write" in run("cache", "learn", "--out", str(missing), code=1)


def test_cache_prune_by_age_keeps_what_is_new(own_cache: Path) -> None:
    remember(3e-6)
    assert run("cache", "prune", "--older-than", "1") == "0 rows removed\n"
    assert run("cache", "prune", "--older-than", "0") == "2 rows removed\n"


def test_cache_prune_takes_no_age_below_0(own_cache: Path) -> None:
    remember(3e-6)
    for age in ("-1", "nan"):
        assert "greater than or equal to 0" in run("cache", "prune", "--older-than", age, code=2)
    assert run("cache", "prune", "--everything") == "2 rows removed\n"


def test_cache_prune_wants_one_or_the_other(own_cache: Path) -> None:
    said = run("cache", "prune", "--everything", "--older-than", "3", code=2)
    assert "say either --older-than DAYS or --everything" in said


def test_cache_prune_alone_keeps_the_limit(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(3e-6)
    files = BlobStore(folder_of_kept("tuned"))
    for number in range(8):
        files.put(str(number), bytes(50_000))
    assert run("cache", "prune") == "0 files removed\n"
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", "400K")
    found = run("cache", "prune")
    assert re.fullmatch(r"[3-6] files removed\n", found), found
    assert "dot[n:64]" in run("cache", "ls")


def test_rows_that_are_none_are_counted_and_refused(own_cache: Path, tmp_path: Path) -> None:
    remember(3e-6)
    remember(3e-6, problem="dot[n:65]")
    remember(3e-6, problem="dot[n:66]")
    file = tmp_path / "rows.jsonl"
    with closing(sqlite3.connect(own_cache / "tuning.sqlite3")) as database, database:
        database.execute("update winners set schedule = '{}' where problem = 'dot[n:65]'")
        database.execute("update winners set seconds = 'soon' where problem = 'dot[n:66]'")
    registry.forget()
    result = CliRunner().invoke(app, ["cache", "ls"])
    assert result.stderr == "2 rows are damaged and not used\n"
    assert run("cache", "export", str(file)) == f"5 rows written to {file}\n"
    result = CliRunner().invoke(app, ["cache", "import", str(file)])
    assert result.stdout == f"4 rows read from {file}\n"
    assert result.stderr.splitlines()[0] == "1 line is no row and was left out:"
    assert re.match(r"  line \d: not a schedule: '{}': .*missing", result.stderr.splitlines()[1])


def test_a_file_that_is_no_export_is_refused(own_cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("hello\n", encoding="utf-8")
    assert run("cache", "import", str(file), code=1) == (
        "StoreError: line 1: not an exported store of this version: 'hello'\n"
    )
    file.write_text(f"{EXPORT_HEADER}\nno row\n", encoding="utf-8")
    assert run("cache", "import", str(file), code=1).startswith("1 line is no row and was left out")


def test_nothing_is_imported_into_a_store_that_ends_with_the_command(
    own_cache: Path, tmp_path: Path
) -> None:
    remember(3e-6)
    file = tmp_path / "rows.jsonl"
    run("cache", "export", str(file))
    registry.store().close()
    registry.store.cache_clear()
    (own_cache / "tuning.sqlite3").chmod(0o666)
    with pytest.warns(StoreWarning, match="other users can write to it"):
        told = run("cache", "import", str(file), code=1)
    assert "other users can write to it" in told
