"""Every module of benchmarks can be imported, but for packages that are not installed."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

import bench

MODULES = sorted(path.stem for path in Path(bench.__path__[0]).glob("*.py"))


@pytest.mark.process  # which some modules begin when they are imported
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_it_is_imported(name: str) -> None:
    missing = ""
    try:
        importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
    assert not missing or importlib.util.find_spec(missing) is None
