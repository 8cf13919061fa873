# Everything a newcomer needs: `make demo` and `make test`. Each makes its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: env demo test lint bench docs clean

# One stamp for the environment, made again when what it depends on has changed.
$(VENV)/ready: pyproject.toml hook/frostline.pth
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# The environment alone; then `.venv/bin/pytest tests/gate` is one part of the suite.
env: $(VENV)/ready

demo: $(VENV)/ready
	$(BIN)/frostline demo

# The stubs of the numpy that 3.12 and later get cannot be read as 3.10's, which pyproject.toml asks for.
STUBS = $$($(BIN)/python -c 'import sys; v = sys.version_info; print(f"--python-version={v[0]}.{v[1]}" * (v >= (3, 12)))')

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(STUBS)
	$(BIN)/frostline check src

# pytest comes last, so that its summary is what a reader of the log sees at the end.
test: lint
	$(BIN)/python -m pytest

# One row: make bench ROWS=callback. All of them take hours. Nothing else should run on the machine meanwhile.
bench: $(VENV)/ready
	FROSTLINE_PYTHONS=$$($(BIN)/python -m tests.interpreters) $(BIN)/python -m benchmarks $(ROWS)

# docs/format.md is generated from the code, and a test holds it to that. docs/messages.md is written by hand; a
# test compares its names with those that the code can say.
docs: $(VENV)/ready
	$(BIN)/python -m frostline.format.describe > docs/format.md

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
