# Everything from a fresh clone: each verb makes .venv, installs, and runs.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test check format bench clean

help:
	@echo "make demo    install, then sort scikit-learn's digits with the bundled backbone"
	@echo "make test    install, then run every test"
	@echo "make check   format, lint, types and the fast tests"
	@echo "make format  write the format that make check wants"
	@echo "make bench   a training step against its network alone, on this machine"

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ossl needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: install
	$(BIN)/ossl demo

test: install
	$(BIN)/python -m pytest

check: install
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m "not slow"

format: install
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: install
	$(BIN)/ossl bench step

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
