# Everything a developer runs. `make` alone lists it.
#
# The venv is made from requirements.lock, hashes checked, and again only when that file or pyproject.toml changes.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/pytest
# One test file at a time in each of several processes, one a core, those that are marked as long first; PARALLEL= for
# one process.
PARALLEL ?= --numprocesses auto --dist loadfile --no-loadscope-reorder
export PYTHONUNBUFFERED := 1
# How many faults `make chaos` injects, from which seed, and of which kinds.
export CHAOS_FAULTS ?= 10000
export CHAOS_SEED CHAOS_ONLY
# Where it is set, as in many images, each of the many processes that a test run starts compiles all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ The two commands to know

.PHONY: demo
demo: venv ## Set everything up and run the main job on real input, step by step
	$(BIN)/anabranch demo

.PHONY: test
test: lint test-unit test-store test-cluster ## Run every check, and every test tier that needs no node

##@ Working on it

.PHONY: dev
dev: venv ## Start the whole system, leave it running, and print how to talk to it
	$(BIN)/anabranch dev

.PHONY: lint
lint: venv ## Check style, types, layers, and that generated files are up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory generate GENERATE_FLAGS=--check

.PHONY: format
format: venv ## Mend what ruff can mend
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: generate
generate: venv ## Write the files that are generated from the code: crds/, docs/openapi.json and metrics.md, the chart's
	$(BIN)/python -m anabranch.manifests.generate $(GENERATE_FLAGS)
	$(BIN)/python -m anabranch.api.openapi $(GENERATE_FLAGS)
	$(BIN)/python -m anabranch.telemetry.reference $(GENERATE_FLAGS)
	$(BIN)/python -m anabranch.chart.generate $(GENERATE_FLAGS)

.PHONY: kustomize
kustomize: venv ## Write charts/kustomize/base, which is the chart as Helm renders it
	$(BIN)/python -m anabranch.chart.kustomize

.PHONY: test-unit
test-unit: venv ## Run the tests that need nothing but Python, and Helm for those of the chart
	$(PYTEST) $(PARALLEL) tests/unit tests/chart

.PHONY: test-store
test-store: venv ## Run the tests on a real Postgres
	$(PYTEST) $(PARALLEL) -m "not outages" tests/store

.PHONY: test-cluster
test-cluster: venv ## Run the tests on a real API server, with the operator and the API running
	$(PYTEST) $(PARALLEL) -m "not outages" tests/cluster

.PHONY: test-outages
test-outages: venv ## Kill, cut off and replace servers and processes while others work: some minutes
	$(PYTEST) -m outages tests/store tests/cluster

.PHONY: test-e2e
test-e2e: venv ## Run the tests in pods, on a cluster with a node: needs root on Linux, may install Debian packages
	$(PYTEST) -rs tests/e2e

.PHONY: e2e
e2e: test-e2e

.PHONY: security
security: venv ## Run the tests that docs/security.md names: what stands against each threat
	$(PYTEST) $(PARALLEL) -m security tests/unit tests/chart tests/store tests/cluster

.PHONY: chaos
chaos: venv ## Let 10,000 things fail under work, and judge: CHAOS_FAULTS=, CHAOS_SEED=, CHAOS_ONLY= (docs/chaos.md)
	$(PYTEST) -p no:randomly --capture=no --show-capture=no tests/chaos

.PHONY: bench
bench: $(VENV)/.benchmarks ## Measure every row of benchmarks/ next to its peer: some minutes on a quiet machine
	$(BIN)/python -m benchmarks $(if $(BENCH),$(BENCH),all) $(BENCH_FLAGS)

.PHONY: experiments
experiments: venv ## Ask a memory before and after consolidation, and show what docs/quality.md tells of it
	$(PYTEST) --quiet --capture=no -p no:randomly tests/store/test_quality_experiments.py

.PHONY: docs
docs: venv ## Build the site of the documentation in artifacts/docs/site, each link and anchor checked
	$(BIN)/sphinx-build --fresh-env --fail-on-warning --keep-going --quiet --conf-dir docs --doctree-dir artifacts/docs/doctrees . artifacts/docs/site

.PHONY: image
image: venv ## Build the container image, with docker or without, and save it in artifacts/
	$(BIN)/python -m anabranch.devcluster image

.PHONY: sbom
sbom: venv ## Write what a release is made of to artifacts/sbom/: its Python packages, and the image where it was made
	mkdir -p artifacts/sbom
	$(BIN)/python image/sbom.py lock requirements-runtime.lock > artifacts/sbom/anabranch.cdx.json
	[ ! -f artifacts/anabranch-image.tar ] || \
		$(BIN)/python image/sbom.py image artifacts/anabranch-image.tar > artifacts/sbom/anabranch-image.spdx.json

##@ What they stand on

.PHONY: venv
venv: $(VENV)/.installed ## Make the virtual environment

.PHONY: devcluster
devcluster: venv ## Build the local control plane's programs: minutes the first time, then at once
	$(BIN)/python -m anabranch.devcluster build

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.PHONY: lock
lock: venv ## Resolve the dependencies anew and pin them, with hashes, in requirements.lock and, for the image, its parts
	$(COMPILE) --all-extras --upgrade pyproject.toml --output-file requirements.lock
	$(COMPILE) --extra operator --extra api --extra tracing --constraint requirements.lock pyproject.toml --output-file requirements-runtime.lock
	$(COMPILE) --extra operator --extra api --extra tracing --extra embeddings --constraint requirements.lock pyproject.toml --output-file requirements-embeddings.lock
	echo hatchling | $(COMPILE) --constraint requirements.lock - --output-file requirements-build.lock
	$(COMPILE) --upgrade --constraint requirements.lock benchmarks/requirements.in --output-file benchmarks/requirements.lock

.PHONY: clean
clean: ## Delete the virtual environment and every cache of this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artifacts build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# uv comes first, by pip and with the lock's own hash; everything else is uv's work, in a few seconds.
$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory python3-venv
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@awk '/^uv==/ {on = 1} on {print} on && !/\\$$/ {exit}' requirements.lock > $(VENV)/uv.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt
	$(BIN)/uv pip sync --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# The benchmarks' peers, on top: a newcomer who only tests does not download them.
$(VENV)/.benchmarks: benchmarks/requirements.lock $(VENV)/.installed
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement benchmarks/requirements.lock
	@touch $@

.PHONY: python3-venv
python3-venv:
	@[ "$$(id -u)" = 0 ] || { echo "Python's venv module is missing: sudo apt-get install python3-venv"; exit 1; }
	apt-get update --quiet
	DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-venv
