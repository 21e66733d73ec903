# Every target sets up .venv first; `make demo` or `make test` may be the first command after git clone.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
MACHINE := .venv/.machine
WEB := examples/web/device.js

# Tests start hundreds of Pythons, which shall not compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo flights web test quick bench figures lint clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt scripts/setup
	PYTHON=$(PYTHON) bash scripts/setup

# PostgreSQL, browsers and Node.js, for the tests alone: the demo needs none of them.
$(MACHINE): $(STAMP) scripts/setup-machine
	bash scripts/setup-machine
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

# The five verbs on a real table, with their pictures.
flights: $(STAMP)
	@$(BIN)/python examples/flights.py

# The page of `thresher serve --demo` on which a person can be one of the devices.
web: $(WEB)

$(WEB): $(wildcard clients/typescript/src/*.ts clients/typescript/scripts/bundle.mjs clients/typescript/*.json) scripts/build-client | $(STAMP)
	bash scripts/setup-machine node
	bash scripts/build-client
	@touch $@

test: $(MACHINE) $(WEB)
	$(BIN)/python -m pytest -n 3 --dist worksteal

quick: $(MACHINE) $(WEB)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

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
	rm -rf clients/typescript/node_modules clients/typescript/dist $(WEB)
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .hypothesis
