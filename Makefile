# Needs only make and Python 3.11, 3.12 or 3.13: the first target that runs sets up .venv.
PYTHON ?= python3.11 python3.12 python3.13 python3# the first of these that is 3.11 to 3.13
JOBS ?= logical# processes for the tests; 0 is none but this one

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest --quiet -rs -n $(JOBS) --dist loadfile
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable

.DELETE_ON_ERROR:
.PHONY: help setup book test test-machines test-oldest test-wheel bench results results-check \
	notebooks format clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make .venv with the locked versions

book: $(READY) ## execute every chapter and build the book, any warning is an error
	@rm -rf _build
	@echo "Executing the chapters and building the book: this takes minutes."
	$(BIN)/jupyter-book build . -W -n --keep-going --quiet

test: $(READY) ## lint, types, unit tests, doctests, the book in a browser, the notebooks' outputs
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit; done; \
	echo "No Chromium on this machine: the browser tests of the book will be skipped."
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(PYTEST)
	$(PYTEST) --nbval notebooks/
	@$(BIN)/python benchmarks/run.py --check || echo "(only told here; make results-check fails)"

test-machines: $(READY) ## the notebooks' outputs as on other processors, with 1 and 2 threads
	$(BIN)/python scripts/machines.py $(SETTINGS)

test-oldest: $(READY) ## the unit tests with the oldest versions that pyproject.toml allows
	$(BIN)/python scripts/fresh.py oldest

test-wheel: $(READY) ## build a wheel, install it alone in a fresh environment, fit and predict
	$(BIN)/python scripts/fresh.py wheel

bench: $(READY) ## print seconds a step and a trial, scaling and memory
	$(BIN)/python benchmarks/bench.py

results: $(READY) ## make the tables in results/ that the present engine has not made; resumes
	$(BIN)/python benchmarks/run.py $(TABLES)

results-check: $(READY) ## list the tables that the present engine has not made; fails if any
	@$(BIN)/python benchmarks/run.py --check $(TABLES)

notebooks: $(READY) ## execute the notebooks in place, to refresh their stored outputs
	$(BIN)/python scripts/execute_notebooks.py

format: $(READY) ## format the code and repair what ruff can
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

clean: ## remove the built book and the caches
	rm -rf _build build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info __pycache__
	find peql tests scripts book benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf $(VENV)

$(VENV)/.locked: requirements.lock
	@python=; for p in $(PYTHON); do \
	  if "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; \
	  then python=$$p; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "peql needs Python 3.11, 3.12 or 3.13, and none of these is one: $(PYTHON)" >&2; \
	  echo "Name one: make PYTHON=python3.11" >&2; exit 1; fi; \
	echo "Making $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(VENV)
	@echo "Installing torch"
	@$(PIP) -qq install "$$(grep '^torch==' requirements.lock)"
	@echo "Installing the rest of requirements.lock"
	@$(PIP) -qq install -r requirements.lock
	@touch $@

$(READY): $(VENV)/.locked pyproject.toml
	@$(PIP) -qq install --no-deps --no-build-isolation -e .
	@$(PIP) check
	@touch $@
