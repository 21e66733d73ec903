# Every target sets up .venv first; `make demo` or `make test` may be the first command after git clone.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
MACHINE := .venv/.machine

# Tests start hundreds of Pythons, which shall not compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test quick bench figures lint clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt scripts/setup
	PYTHON=$(PYTHON) bash scripts/setup

# PostgreSQL and Chromium, for the tests alone: the demo needs neither.
$(MACHINE): $(STAMP) scripts/setup-machine
	bash scripts/setup-machine
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

test: $(MACHINE)
	$(BIN)/python -m pytest -n 3 --dist worksteal

quick: $(MACHINE)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(MACHINE)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/peers/compare.py --json out/benchmarks/peers.json
	$(BIN)/python benchmarks/report.py

figures: $(STAMP)
	$(BIN)/thresher lab figures --output out/figures
	$(BIN)/python examples/figures.py

clean:
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .hypothesis
