# Every target sets up what it needs; a second call finds that done and starts immediately.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install -c constraints.txt
ARGS ?=

# If this were set, no byte code would be kept and every start would be slow.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test soak check bench bench-peers bench-real reproduce docs docs-check release-check clean
.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup: $(VENV)/.setup ## create the environment in .venv

demo: setup ## rank recorded approaches by how unusual they are, with reasons, and write a report
	$(BIN)/python examples/demo.py $(ARGS)

test: setup ## run the tests and the examples in the documentation (ARGS="-k name -n 0" for some)
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder $(ARGS)

soak: setup ## random estimators, interrupts, files and streams for an hour (ARGS="--minutes 5 --seed 1")
	$(BIN)/python tests/soak.py $(ARGS)

check: setup ## check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src

bench: setup ## measure speed and accuracy
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: setup ## compare with other packages, each installed in .peers
	$(BIN)/python -m benchmarks.peers $(ARGS)

bench-real: setup ## compare models on the sequences in the folder SOJOURN_DATA
	$(BIN)/python -m benchmarks real $(ARGS)

reproduce: setup ## run the paper's experiments in small (ARGS="synthetic --runs 10 -o DIR": one of them)
	$(BIN)/python -m reproduction $(or $(ARGS),synthetic --quick)
	$(if $(ARGS),,$(BIN)/python -m reproduction aviation --quick)

docs: $(VENV)/.docs ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo docs/_build/html/index.html

docs-check: docs ## look at every page in Chromium: widths, themes, contrast, errors, requests
	$(BIN)/python scripts/check_pages.py $(ARGS)

release-check: setup ## build wheel and sdist, look inside, install each in new environments and try (ARGS=--quick)
	$(BIN)/python scripts/release_check.py $(ARGS)

clean: ## remove everything that the other targets made, except .venv
	rm -rf build dist docs/_build docs/gallery docs/generated docs/reference .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests examples benchmarks reproduction docs -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The build backend comes first and is not isolated, so that its version is pinned too.
$(VENV)/.setup: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sojourn needs Python 3.11 or newer: make PYTHON=... $(MAKECMDGOALS)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.setup
	$(PIP) --no-build-isolation -e '.[docs]'
	$(PIP) --no-deps aeon deprecated wrapt  # only for its data: it would ask for an older NumPy
	@touch $@
