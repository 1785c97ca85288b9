# Needs only make and Python 3.11 or 3.12: the first target that runs sets up .venv.
PYTHON ?= python3.11 python3.12 python3# the first of these that is 3.11 or 3.12
JOBS ?= logical# processes for the tests; 0 is none but this one

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest --quiet -rs -n $(JOBS) --dist loadfile
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable

.DELETE_ON_ERROR:
.PHONY: help setup book test bench sweep notebooks format clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

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

bench: $(READY) ## print seconds a step and a trial, scaling and memory
	$(BIN)/python benchmarks/bench.py

sweep: $(READY) ## rerun the 400-trial sweep behind results/analytic.csv; goes on where it stopped
	$(BIN)/python benchmarks/sweep_analytic.py

notebooks: $(READY) ## execute the notebooks in place, to refresh their stored outputs
	$(BIN)/python scripts/execute_notebooks.py

format: $(READY) ## format the code and repair what ruff can
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

clean: ## remove the built book and the caches
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info __pycache__
	find peql tests scripts book -type d -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf $(VENV)

$(VENV)/.locked: requirements.lock
	@python=; for p in $(PYTHON); do \
	  if "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; \
	  then python=$$p; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "peql needs Python 3.11 or 3.12, and none of these is one: $(PYTHON)" >&2; \
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
