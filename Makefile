# proxrl: all commands for users and developers. Requires only Python 3.11, 3.12 or 3.13 and make.
# PYTHON: the newest of them that runs and can create a virtual environment; or set it yourself.
SUPPORTED := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	$$name -c '$(SUPPORTED)' 2>/dev/null && echo $$name && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-faults browser docs check format bench clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.installed  ## create a virtual environment with pinned dependencies

$(VENV)/.installed: pyproject.toml setup.py constraints.txt $(wildcard src/proxrl/native/*.[ch])
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
		echo "proxrl needs Python 3.11, 3.12 or 3.13 with venv (on Debian also the package" \
			"python3-venv); if it is not on the PATH: make install PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi; \
	echo "installing proxrl into $(VENV) with $$python (a few minutes the first time)"; \
	$$python -m venv $(VENV)
	@$(PIP) install --constraint constraints.txt --editable '.[all,minatar,ray,sb3,tianshou,tune,onnx,docs,dev]'
	@touch $@

demo: install  ## train DQN and DQN Pro side by side on MinAtar, make a report: about five minutes
	@$(BIN)/proxrl demo

test: install  ## run the fast test suite
	@$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: install  ## run real training, three seeds each, and all 64 switch combinations: hours on 2 cores
	@$(BIN)/python -m pytest -m slow

test-faults: install  ## kill runs 50 times at random in each setting, damage every file of a run
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m faults

browser:  ## install Chromium for the tests of the report's page (Debian, as root; skipped elsewhere)
	@if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		{ apt-get update -qq && \
		  apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		echo "chromium could not be installed: the report's page will not be tested in a browser"; \
	else echo "no chromium, apt-get or root: the report's page will not be tested in a browser"; fi

docs: install  ## build the documentation site (site/index.html); broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@$(BIN)/python docs/tools/check_site.py site

check: install  ## check format, lint and types and run the tests, as CI does
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m mypy
	@$(BIN)/python -m pytest -n 2 --dist worksteal

format: install  ## format the code and apply safe lint fixes
	@$(BIN)/python -m ruff check --fix --quiet . || true
	@$(BIN)/python -m ruff format .

bench: install  ## measure speed, memory and checkpoints, as ratios (keep the machine idle)
	@$(BIN)/python -m benchmarks

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
