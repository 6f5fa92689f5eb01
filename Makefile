# `make` lists the tasks. Each one sets up .venv by itself; all that it needs is Python 3.11 or newer.
# PYTHON=python3.12 and EXTRAS=opencl,test,check,demo,cuda13 change what `make clean venv` sets up,
# ARGS="…" goes to the tool behind a task, JOBS=4 to the tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= opencl,test,check,demo
ARGS ?=
# Processes that share the tests. Each compiles, and computes with as many threads as there are cores.
JOBS ?= 2

# Some machines tune OpenBLAS for another processor, which halves NumPy's speed.
unexport OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
# With it, each of the processes that tests begin compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv check format test campaign test-cross test-gpu bench demo docs site clean

help: ## List the tasks.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s  %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(VENV)/installed ## Set up .venv: mdtensor (editable), both CPU devices, the tools.

check: $(VENV)/installed ## Format, lint, types, layering.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/installed ## Rewrite the sources as the checks want them.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(VENV)/installed ## All tests that need no GPU and ask no clock: first those that begin no process.
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS); first=$$?; \
	$(BIN)/python -m pytest -m "process and not campaign" --reruns 1 $(ARGS); second=$$?; \
	for code in $$first $$second; do test $$code = 0 || test $$code = 5 || exit $$code; done  # 5: none

campaign: $(VENV)/installed ## All cases, fuzzers, kills, bounds of time; a log in bench/results.
	$(BIN)/python -m tests.campaign $(ARGS)

test-cross: $(VENV)/installed ## Kernels of other processors under QEMU; tells what is missing.
	$(BIN)/python -m pytest --cross -m cross tests/cross $(ARGS)

test-gpu: $(VENV)/installed ## Tests on a GPU (EXTRAS=…,cuda13); a missing one is a failure.
	$(BIN)/python -m pytest --gpu -m gpu $(ARGS)

bench: $(VENV)/installed-bench ## Compare with NumPy, torch and others on this machine.
	$(BIN)/python -m bench.run $(ARGS)

demo: $(VENV)/installed ## A first look, in a minute.
	$(BIN)/mdtensor demo $(ARGS)

docs: $(VENV)/installed ## Run the examples of the documentation.
	MDTENSOR_TEST_TIER0=1 $(BIN)/python -m pytest -p tests.conftest --doctest-glob='*.md' --ignore=docs/conf.py README.md docs $(ARGS)

site: $(VENV)/installed-site ## The documentation as a site, build/site/index.html; a broken link is an error.
	rm -rf build/site
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -c docs -d build/doctrees . build/site $(ARGS)

clean: ## Remove .venv and all that the tools left behind.
	rm -rf .venv .venv-newest build dist *.egg-info .benchmarks .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is written last: a broken set-up is done again.
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("mdtensor needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 10 -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/installed-bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 10 -c constraints.txt -e '.[bench]'
	@touch $@

$(VENV)/installed-site: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 10 -c constraints.txt -e '.[site]'
	@touch $@
