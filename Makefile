# Everything runs in .venv, which is made on first use from the lock files with plain pip.
# Each step leaves a stamp in .venv, so a second `make` does only what has changed.

VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
CASES ?= matching routing node links simulator pipeline placement assignment

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test quick test-pipeline test-others slow lint format bench study setup lock clean

help: ## say what can be made
	@echo "gravitate: a publish/subscribe network that pulls itself into shape"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runtime ## a workload from Spark, 15 brokers on sockets without and with GRAPE, a report
	$(BIN)/gravitate demo

test: $(VENV)/.dev ## run the test suite: brokers and planners on WORKERS=2, beside them the slow loop
	@echo "two runs of pytest side by side: tests/pipeline, and everything else"
	@$(MAKE) --no-print-directory -j 2 test-pipeline test-others

test-pipeline: $(VENV)/.dev
	$(BIN)/pytest -q tests/pipeline  # one process, so that there is one Spark session

test-others: $(VENV)/.dev
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q --ignore tests/pipeline

quick: $(VENV)/.dev ## the tests of a minute, for the loop of edit and try: the core, and a few random worlds
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q tests/model tests/matching tests/overlay \
	  tests/broker tests/wire tests/config tests/trace tests/adapt tests/test_layers.py \
	  tests/simulate/test_world.py tests/simulate/test_checkers.py \
	  --ignore tests/adapt/test_random_worlds.py --ignore tests/matching/test_jit.py
	$(BIN)/gravitate simulate --random 8 --migrations --crashes --mechanisms

slow: $(VENV)/.dev ## run the tests that take minutes each
	$(BIN)/pytest -q -m slow

lint: $(VENV)/.dev ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## mend style where a machine can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.runtime ## measure, each figure beside its baseline (CASES="matching node ...")
	@set -e; for name in $(CASES); do $(BIN)/gravitate bench $$name; done

study: $(VENV)/.runtime ## the papers' experiments beside the papers' figures (minutes)
	@failed=; for name in publishers subscribers; do \
	  $(BIN)/gravitate reproduce $$name || failed=1; done; test -z "$$failed"

setup: $(VENV)/.dev ## make .venv with everything that developing needs
	@echo "$(VENV) is ready: $(BIN)/gravitate --help"

lock: $(VENV)/.dev ## write the lock files anew from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv on the PATH" >&2; exit 1; }
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  --all-extras --group build pyproject.toml -o requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  --all-extras --group dev -c requirements.lock pyproject.toml -o requirements-dev.lock

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache \
	  .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The first Python that is new enough and can make environments; PYTHON=... names another.
$(VENV)/bin/python:
	@set -e; found=; \
	for candidate in $(PYTHON) python3.13 python3.12 python3.11 python3 python; do \
	  if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	    >/dev/null 2>&1; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Gravitate needs Python 3.11 or newer with the venv module (Debian: python3-venv)." >&2; \
	  echo "Found: $$(python3 --version 2>&1 || true). Name another one with make PYTHON=/path/to/python" >&2; \
	  exit 1; \
	fi; \
	echo "making $(VENV) with $$($$found --version)"; \
	"$$found" -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing brokers and the slow loop into $(VENV) (once; a minute or two)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "compiling bytecode and kernels"
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -c "from gravitate.serve.warm import warm_up; warm_up()"
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "installing what tests and linters need into $(VENV) (once)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@echo "compiling the kernels of subscriber assignment (once; a minute or two)"
	@$(BIN)/python -c "from gravitate.plan.assignment.warm import warm_up; warm_up()"
	@touch $@
