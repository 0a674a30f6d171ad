# The two commands of the README are `make up` and `make test`; the rest serves maintainers.
PYTHON ?= python3
VENV := .venv
# Tests that measure times, count what load changes or put the machine under load run alone. All others run two at once; in their order one
# worker has nearly all that have gateways of their own.
ALONE := $(patsubst %,tests/e2e/test_%.py,cancellation dead_replica faults live openai_errors openai_limits prometheus registration \
	slow_clients) $(patsubst %,tests/loadtest/load/test_%.py,decision_cost index_cost) tests/loadtest/cost/test_count_bytecodes.py
# Unit tests, for `make check`, but for those that are marked as slow.
UNIT := $(addprefix tests/,architecture contract docs observability protos replicas tools) \
	$(addprefix tests/gateway/,config scheduling tenancy/tenants text) \
	$(addprefix tests/routing/,contracts dispatch estimates fleet health policies prefix)
# Where `make test-real` puts engines that this project did not write; they take 6 GB.
REAL := .venv-real
# Where `make test-clients` puts clients that want versions of their own; one wants torch, 6 GB, and NODE's are of another language.
CLIENTS := .venv-clients
CLIENTS_TORCH := .venv-clients-torch
NODE := tests/clients/node
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
FAILED := pip could not install what is above; every requirement has wheels for Linux and macOS (x86_64, arm64), no compiler is needed. It was installing
COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	--quiet
# Of mistral-common the image uses a file, and of tokenizers nothing that downloads: what they need besides is left out.
NOT_IN_IMAGE := hf-xet huggingface-hub pillow pycountry pydantic pydantic-core pydantic-extra-types
LOCK = $(COMPILE) --extra bench --extra kubernetes --extra triton --group build

.PHONY: up lint check test test-drills test-kubernetes test-real test-clients lock proto docs chart clean

up: $(VENV)/.installed
	@exec $(BIN)/penstock serve --config penstock.yaml --quickstart

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m "not slow" $(UNIT)

# The tests start dozens of processes; where Python is told to keep no bytecode, each would compile everything anew.
check test: export PYTHONDONTWRITEBYTECODE =
test: lint
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m "not drill and not kubernetes" $(addprefix --ignore=,$(ALONE))
	$(BIN)/pytest -m "not drill and not kubernetes" $(ALONE)

# What takes minutes for each fault; one at a time, since the machine shall be busy with nothing else.
test-drills: $(VENV)/.installed-dev
	$(BIN)/pytest -m drill tests/e2e

# A real control plane, whose programs are built once, for a quarter of an hour; nodes are played, see tests/kubernetes.
test-kubernetes: $(VENV)/.installed-dev
	$(BIN)/pytest -rs -m kubernetes tests/kubernetes

test-real: $(VENV)/.installed-dev $(REAL)/.installed
	PENSTOCK_REAL_ENGINES=$(abspath $(REAL)) $(BIN)/pytest tests/real

$(REAL)/.installed: requirements-real.txt | $(VENV)/bin/python
	@$(BIN)/python -m venv $(REAL)
	@$(REAL)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-real.txt
	@touch $@

test-clients: $(VENV)/.installed-dev $(CLIENTS)/.installed
	@command -v npm >/dev/null && $(MAKE) --silent $(NODE)/node_modules/.installed || \
		echo "npm is not here, or cannot install $(NODE): the clients for Node are skipped"
	@$(MAKE) --silent $(CLIENTS_TORCH)/.installed || echo "pip cannot install requirements-clients-torch.txt: guidellm is skipped"
	PENSTOCK_CLIENTS=$(abspath $(CLIENTS)) PENSTOCK_CLIENTS_TORCH=$(abspath $(CLIENTS_TORCH)) $(BIN)/pytest -rs tests/clients

$(CLIENTS)/.installed: requirements-clients.txt | $(VENV)/bin/python
	@$(BIN)/python -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-clients.txt
	@touch $@

$(CLIENTS_TORCH)/.installed: requirements-clients-torch.txt | $(VENV)/bin/python
	@$(BIN)/python -m venv $(CLIENTS_TORCH)
	@$(CLIENTS_TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-clients-torch.txt
	@touch $@

$(NODE)/node_modules/.installed: $(NODE)/package-lock.json
	@cd $(NODE) && npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "penstock needs Python 3.11 to 3.13, and $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV), once; this takes a minute."
	@$(PYTHON) -m venv $(VENV) || { echo "cannot make $(VENV): is Python's venv module installed?"; exit 1; }

$(VENV)/.installed: requirements.txt pyproject.toml | $(VENV)/bin/python
	@$(PIP) --require-hashes -r requirements.txt || { echo "$(FAILED) requirements.txt"; exit 1; }
	@$(PIP) --no-deps --no-build-isolation --editable . || { echo "$(FAILED) this project"; exit 1; }
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(PIP) --require-hashes -r requirements-dev.txt || { echo "$(FAILED) requirements-dev.txt"; exit 1; }
	@touch $@

lock:  # needs uv on the path
	$(LOCK) --output-file requirements.txt
	$(LOCK) --group dev --constraints requirements.txt --output-file requirements-dev.txt
	$(COMPILE) --extra kubernetes --extra s3 --extra triton --constraints requirements-dev.txt \
		$(addprefix --no-emit-package ,$(NOT_IN_IMAGE)) --output-file deploy/requirements.txt
	uv pip compile --group image --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --quiet --output-file deploy/requirements-build.txt
	uv pip compile --group real --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --quiet --output-file requirements-real.txt
	uv pip compile --group clients --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --quiet --output-file requirements-clients.txt
	uv pip compile --group clients-torch --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --quiet --output-file requirements-clients-torch.txt
	cd $(NODE) && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund

proto: $(VENV)/.installed-dev
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. protos/replica.proto protos/ext_proc.proto protos/external_scaler.proto

chart: $(VENV)/.installed-dev  # needs helm on the path
	$(BIN)/python -m tools.chart

docs: $(VENV)/.installed-dev
	$(BIN)/penstock schema --markdown > docs/configuration.md
	$(BIN)/penstock bench engine-model --markdown > docs/engine-model.md
	$(BIN)/python -m tools.dashboards
	$(BIN)/python -m tools.dashboards --runbook > docs/alerts.md
	sed '/^<!-- Made by/q' docs/observability.md > docs/observability.md.new
	(echo; $(BIN)/python -m tools.dashboards --metrics) >> docs/observability.md.new
	mv docs/observability.md.new docs/observability.md

clean:
	rm -rf $(VENV) $(REAL) $(CLIENTS) $(CLIENTS_TORCH) $(NODE)/node_modules .penstock
