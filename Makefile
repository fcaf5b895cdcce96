# What a developer types. `make test` needs nothing but Python 3.11 or newer (with pip and venv) and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test check clients format docs bench bench-quick clean

help:
	@echo "make run     the gateway on its defaults: echo upstream, store in the data directory"
	@echo "make test    install everything into $(VENV) and run every check: what CI runs"
	@echo "make check   the same checks; 'scripts/check lint types' runs some of them"
	@echo "make clients install the other clients that the gateway is tested with; CI does"
	@echo "make format  rewrite the code in the house's format"
	@echo "make docs    write the generated pages again"
	@echo "make bench   measure beside the peers, each in an environment of its own, in many rounds"
	@echo "make bench-quick  the same with fewer rounds; under five minutes once everything is installed"
	@echo "make clean   remove everything that make made"

run: $(VENV)/.runs
	@$(BIN)/cannery serve

test: check

check: $(VENV)/.develops
	@$(BIN)/python scripts/check

clients: $(VENV)/.develops
	@$(BIN)/python scripts/e2e_clients.py

format: $(VENV)/.develops
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --fix

docs: $(VENV)/.develops
	@$(BIN)/python scripts/write_api.py
	@$(BIN)/python scripts/write_losses.py
	@$(BIN)/python scripts/write_dialects.py
	@$(BIN)/python -m cannery.cli.manual > docs/cli.md
	@$(BIN)/python scripts/draw_terminal.py

bench:
	@$(PYTHON) scripts/bench

bench-quick:
	@$(PYTHON) scripts/bench --quick

clean:
	rm -rf $(VENV) .bench build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +

# The two stamps say what .venv can do; each is as new as the pyproject.toml it was made from.

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Cannery needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runs: pyproject.toml | $(VENV)/bin/python
	@echo "Installing Cannery into $(VENV) ..."
	@$(PIP) install --editable '.[cli,gateway,viewer]'
	@touch $@

$(VENV)/.develops: pyproject.toml | $(VENV)/bin/python
	@echo "Installing Cannery and its development tools into $(VENV) ..."
	@$(PIP) install --editable '.[cli,gateway,viewer,telemetry,encryption,postgres,s3,dev]'
	@touch $(VENV)/.runs $@
