# Needs python3 (3.11 or newer) with venv, and make. Everything else comes from requirements.lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUTPUT ?= build/demo

.PHONY: install compiled servers run stream-demo test fast-tests test-engines test-all oldest-beam check lint types wheel bench bench-fusion bench-stream compare assurance pictures docs lock clean

install: $(VENV)/.installed

COMPANIONS := $(wildcard companions/*)

$(VENV)/.installed: requirements.lock pyproject.toml setup.py $(COMPANIONS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hatstream needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making the environment in $(VENV) (about 1.4 GB, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python .ci/pip_progress.py --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . $(COMPANIONS:%=-e %)
	@touch $@

# What tests of servers need and pip cannot bring. Without it they are skipped; where CI is set they fail.
servers: install
	@sh .ci/servers
	@$(BIN)/python -m hatstream_lab.servers.flink

run: install
	@$(BIN)/hatstream demo --output $(OUTPUT)

# The stream on one machine for three minutes. Needs a JDK 17, Maven and PostgreSQL, and says so where one is missing.
stream-demo: install
	@$(BIN)/python -m hatstream_lab.demo.stream_demo

# Matrices are small: a thread more takes three times the CPU. What pytest makes of a file of tests is kept for the next
# run, and plugins of hypothesis, which another package brings, are not imported.
TESTING := OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= HYPOTHESIS_NO_PLUGINS=1

# Tests start some hundred processes, which need not compile everything each.
compiled: install
	@$(BIN)/python -m compileall -q dpops transforms pipelines hatstream companions

# Lint and import contracts, then types beside every fast test but those of the engines.
test: lint compiled
	@$(MAKE) --no-print-directory --jobs=2 types fast-tests

fast-tests: install
	@$(TESTING) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=20 -m "not slow and not engines"

# The stream on Kafka and Flink: about three minutes, most of them the servers' own.
test-engines: compiled
	@$(TESTING) $(BIN)/python -m pytest -m "engines and not slow"

# The whole suite with the slow tests too (1,000 injected failures, 100 random kills, 10^6 fuzzed rows, 10,000 runs of
# every mechanism): about 30 minutes on 2 cores, and 20 of the hostile world (tests/hostile).
test-all: check compiled
	@$(TESTING) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --hypothesis-profile whole -m "not engines"
	@$(TESTING) $(BIN)/python -m pytest --hypothesis-profile whole -m engines

# The source archive and the wheel in build/dist; then the wheel, with nothing but what it asks for, under each Python
# of 3.11 to 3.13 that is here. Needs the package index; about two minutes a Python.
wheel: install
	@rm -rf build/dist && mkdir -p build/dist
	@$(BIN)/python -c 'from setuptools import build_meta as made; print(made.build_sdist("build/dist"))' | tail -1
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/dist build/dist/*.tar.gz
	@$(TESTING) $(BIN)/python -m pytest tests/test_wheel.py

# What touches Beam, with the oldest that pyproject.toml takes, in an environment of its own. Needs the package index;
# about ten minutes.
oldest-beam: install
	@$(PYTHON) -m venv --clear build/oldest-beam
	@grep -oE '^[A-Za-z0-9._-]+==[^\\]+' requirements.lock | sed 's/^apache-beam==.*/apache-beam==2.76.0/' > build/oldest-beam/pinned.txt
	@build/oldest-beam/bin/pip install --quiet --no-deps -r build/oldest-beam/pinned.txt
	@build/oldest-beam/bin/pip install --quiet --no-deps --no-build-isolation -e . $(COMPANIONS:%=-e %)
	@$(TESTING) build/oldest-beam/bin/python -m pytest tests/hatstream tests/transforms/time tests/pipelines/runs tests/golden tests/stream -m "not slow and not engines"

check: lint types

lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache

types: install
	@$(BIN)/mypy

bench: install
	@$(BIN)/python -m benchmarks.mechanisms
	@$(BIN)/python -m benchmarks.suppression
	@$(BIN)/python -m benchmarks.throughput
	@$(BIN)/python -m benchmarks.ledger

# Local reports of up to 10,000,000 users: about two minutes of an idle machine, 1.5 GB.
bench-fusion: install
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.fusion

# Needs what stream-demo needs; a quarter of an hour.
bench-stream: install
	@$(BIN)/python -m benchmarks.stream
	@$(BIN)/python -m benchmarks.sustained

# The README's two tables: the same promise by PipelineDP (in an environment of its own) and by hatstream; some minutes.
DATA ?= ../shared/data/capmetro/*.csv
SPEC ?= docs/austin.toml
compare: install
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.compare --data '$(DATA)' --spec $(SPEC)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.compare_keys --data '$(DATA)'

# measurements/assurance.md from what it measures; five minutes.
assurance: install
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.assurance

# The pictures of docs/, but for that of a stream, which `make bench-stream` draws; some minutes, and chromium.
pictures: install
	@$(BIN)/python -m docs.draw_mechanisms
	@$(BIN)/python docs/draw_diagrams.py
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m docs.draw_pages
	@$(BIN)/hatstream evaluate papers --output build/evaluation
	@cp build/evaluation/error-itms-like.png build/evaluation/error-samples-x10.png build/evaluation/error-extreme.png docs/pictures/

# The documentation as a site, opened from site/README.html or site/index.html. Fails at any warning.
docs: install
	@$(BIN)/python docs/make_site.py

# Maintainers: uv pip compile (uv comes from the Python package index).
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --extra dev pyproject.toml --output-file requirements.lock
	mkdir -p build
	grep -v '^ *--hash' requirements.lock | sed 's/ \\$$//' > build/constraints.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --extra images --constraint build/constraints.txt pyproject.toml --output-file requirements-images.lock

clean:
	rm -rf $(VENV) build site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
