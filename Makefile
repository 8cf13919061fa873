# Everything a newcomer needs: `make demo` and `make test`. Each makes its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench docs clean

# One stamp for the environment, made again when what it depends on has changed.
$(VENV)/ready: pyproject.toml hook/frostline.pth
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/frostline demo

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/frostline check src

# pytest comes last, so that its summary is what a reader of the log sees at the end.
test: lint
	$(BIN)/python -m pytest

# One row: make bench ROWS=callback. Nothing else should run on the machine meanwhile.
bench: $(VENV)/ready
	FROSTLINE_PYTHONS=$$($(BIN)/python -m tests.interpreters) $(BIN)/python -m benchmarks $(ROWS)

# docs/format.md and docs/messages.md are generated from the code; a test holds them to it.
docs: $(VENV)/ready
	$(BIN)/python -m frostline.format.describe > docs/format.md

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
