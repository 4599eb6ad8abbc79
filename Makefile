# The system's Python is built with optimisation, which one compiled by a version manager often is not: half as fast.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo /usr/bin/python3 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
# `make test JOBS=2`: two processes of tests, and each file's tests in one of them.
PYTEST := $(BIN)/python -m pytest $(if $(JOBS),-n $(JOBS) --dist loadscope --no-loadscope-reorder)

.PHONY: demo test check scenarios hundred spark interop bench fuzz clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' \
		--config-settings editable_mode=compat   # else a folder named like a package, in the current one, hides it
	touch $@

$(VENV)/.spark: $(VENV)/.ready       # half a GB: only for what needs it
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]' \
		--config-settings editable_mode=compat
	touch $@

demo: $(VENV)/.spark        ## the main job: a cluster, its master killed, the truth shown, and audited on Spark
	$(BIN)/rmqlab demo
	$(BIN)/rmqlab audit demo --report

test: $(VENV)/.ready        ## unit and process tests; needs nothing but Python
	$(PYTEST)

check: $(VENV)/.ready       ## lint, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

scenarios: $(VENV)/.ready   ## every canonical scenario, played and judged; one table. `make spark` audits what it leaves
	$(BIN)/rmqlab scenarios --run --keep-stores

hundred: $(VENV)/.ready     ## a cluster of 100 brokers, killed master by master: a minute or two of 2 cores
	$(BIN)/rmqlab run hundred-brokers

spark: $(VENV)/.spark       ## the data sources and the audit, on Spark; needs PyPI, and no Java
	$(BIN)/python -m pytest -m spark tests/pipeline

interop: $(VENV)/.spark     ## against real RocketMQ 4.9.8; needs a JDK and Maven
	$(PYTEST) -m interop --timeout 900 tests/interop   # a JVM may take its time to start

bench: $(VENV)/.ready       ## side by side with real RocketMQ 4.9.8; needs a JDK and Maven
	$(BIN)/python -m tests.bench

MINUTES ?= 10
fuzz: $(VENV)/.ready        ## hostile input to every socket and to our clients, for MINUTES
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

clean:
	rm -rf $(VENV) build *.egg-info
