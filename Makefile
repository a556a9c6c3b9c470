# `make help` lists the targets. Everything runs in .venv, which the first target that needs it creates.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Raw benchmark graphs, if they are next to the checkout; otherwise they are downloaded to the user's cache.
ifneq ($(wildcard ../shared/datasets),)
export DSSL_DATA ?= $(abspath ../shared/datasets)
endif

.DEFAULT_GOAL := help
.PHONY: help venv demo test check format lint words types audit unit js docs generate dist slow mutants torture bench results clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

venv: .venv/.installed ## create .venv and install dssl with the tested versions

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: venv ## embed Python's standard library as a graph, evaluate, and write a report
	$(BIN)/dssl fit python:stdlib --out runs/demo --overwrite --set splits=3 --set dim=256
	$(BIN)/dssl evaluate runs/demo
	$(BIN)/dssl report runs/demo

test: check ## format, lint, types, JavaScript and tests, as in CI

check: format lint words types audit js unit

format: venv
	$(BIN)/ruff format --check .

lint: venv
	$(BIN)/ruff check .

words: venv
	$(BIN)/python tests/words.py

types: venv
	$(BIN)/mypy

audit: venv ## known vulnerabilities of the tested versions; skipped without a network
	$(BIN)/python tests/audit.py

unit: venv
	$(BIN)/pytest -n 2 --cov --cov-report=
	@total=$$($(BIN)/coverage report --format=total); code=$$?; echo "coverage: $$total % of the lines"; exit $$code

# The formatter and the linter come from npm; the unit tests need node alone.
js: ## format check, lint and unit tests of the JavaScript
ifeq ($(shell command -v node),)
	@echo "js: skipped, node is not installed"
else
	@if test -d node_modules/eslint || npm ci --silent --no-audit --no-fund >/dev/null 2>&1; then npm run --silent check; \
	else echo "js: format check and lint skipped, npm cannot install them"; fi
	@node --test --test-reporter=dot tests/js/*.test.js
endif

docs: .venv/.docs ## the documentation site, in strict mode, to build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.venv/.docs: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

generate: venv ## regenerate the code and the pages that follow from the settings
	$(BIN)/python -m dssl.config.keywords > src/dssl/model/_keywords.new && mv src/dssl/model/_keywords.new src/dssl/model/_keywords.py
	$(BIN)/python -m dssl.config.reference

# The wheel is installed alone, without extras, with the tested versions.
dist: venv ## wheel and sdist to dist/, and a smoke test of the wheel in an empty environment
	rm -rf dist build/empty build/smoke
	$(BIN)/python -m build --outdir dist . >/dev/null
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	build/empty/bin/dssl --version
	build/empty/bin/dssl fit synthetic:h=0.3,nodes=200,classes=3 --out build/smoke --set epochs=2 --set splits=2 --quiet
	build/empty/bin/dssl evaluate build/smoke

slow: venv ## the tests that take long
	$(BIN)/pytest -m slow

mutants: venv ## deliberate mistakes in the methods, one at a time: do the tests fail? Writes results/mutants.md
	$(BIN)/python tests/mutants.py

torture: venv ## kills, full disks, damaged inputs, random settings, torchrun, soak; resumes; writes results/torture.md (about an hour)
	$(BIN)/python -m tests.torture

bench: venv ## speed and memory, each compared with an alternative in the same run; writes to results/ (about 45 minutes)
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/distributed.py
	$(BIN)/python benchmarks/explore.py
	$(BIN)/python -m benchmarks.user

results: venv ## the tables of results/ (many hours from scratch; stored records are reused)
	$(BIN)/dssl reproduce table1 table2 table4 table5 table6 factors summary published
	$(BIN)/python benchmarks/recipes.py
	$(BIN)/python benchmarks/paper_terms.py
	$(BIN)/python benchmarks/decoupling.py

clean: ## remove the environment, runs and caches
	rm -rf .venv node_modules runs build dist .coverage* .mypy_cache .ruff_cache .pytest_cache
