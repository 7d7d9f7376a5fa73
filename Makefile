# One word each. `make demo` and `make test` are all a newcomer needs; each builds its own virtual environment.
PYTHON ?= python3
BIN := .venv/bin
LAB := .venv-lab/bin
OUT ?= out

.PHONY: help demo test check lint types layers docs notebooks model browser drill bench weights tour lab clean

help:  ## what each word does
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/ready  ## the main job on a real model: four threads, a graph, a cost table, an HTML report
	@$(BIN)/python -m slate_lab demo --out $(OUT)/demo

test: .venv/ready  ## the tests: no network, no key, under two minutes
	@$(BIN)/python -m pytest -n 2

check: lint types layers test model  ## everything CI checks: lint, types, layers, tests with docs and notebooks, the real model

lint: .venv/ready  ## ruff: rules and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/ready  ## mypy, strict
	@$(BIN)/mypy

layers: .venv/ready  ## imports point down the list of rooms
	@$(BIN)/lint-imports --no-cache

docs: .venv/ready  ## README blocks, help texts and names
	@$(BIN)/python -m pytest tests/docs

notebooks: .venv/ready  ## the tour under nbval on recorded replies
	@$(BIN)/python -m pytest tests/notebooks

model: .venv/ready  ## tests on the embedded model; they say so when its weights are not here
	@$(BIN)/python -m pytest -m model -rs

browser: .venv-lab/ready  ## JupyterLab under headless Chromium; screenshots in out/screenshots
	@$(LAB)/python -m pytest -m browser -rs tests/browser

drill: .venv/ready  ## kill processes at random points and count what is lost
	@$(BIN)/python -m pytest -m drill -rs -s

bench: .venv/ready  ## import time and cost of a dispatch beside the bare loop, in one run
	@$(BIN)/python -m bench

weights: .venv/ready  ## fetch the embedded model's weights once, verified
	@$(BIN)/python -m slate_lab models get

tour: .venv-lab/ready  ## ask the embedded model anew and save the tour with its answers
	@$(LAB)/python notebooks/refresh.py --record

lab: .venv-lab/ready  ## JupyterLab on the tour
	@$(LAB)/jupyter lab --notebook-dir notebooks --ServerApp.ip=127.0.0.1

clean:  ## remove what was built here (not your stores)
	rm -rf .venv .venv-lab $(OUT) .mypy_cache .ruff_cache .import_linter_cache .hypothesis

define venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "slate_lab needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "building $(1) (once)"
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --disable-pip-version-check -qq -e '.[$(2)]'
	@touch $(1)/ready
endef

.venv/ready: pyproject.toml
	$(call venv,.venv,dev)

.venv-lab/ready: pyproject.toml
	$(call venv,.venv-lab,dev$(comma)browser)

comma := ,
