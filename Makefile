# `make help` lists the targets. Python 3.11 is enough for all but `interop`, `interop-all` and `bench`.

# The system's Python is built with optimisation, which one compiled by a version manager often is not: half as fast.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo /usr/bin/python3 || echo python3)
VENV   := .venv
# Some machines turn off the bytecode cache. Then each of the thousands of processes that tests start compiles rmqlab.
unexport PYTHONDONTWRITEBYTECODE
BIN    := $(VENV)/bin
# `make test JOBS=2` runs the tests in two processes, those of one file in the same process.
SUITE  := $(BIN)/python -m tests.run_suite $(if $(JOBS),--jobs $(JOBS))
SPARK  := $(SUITE) spark tests/pipeline -- --durations=25
# A JVM may take long to start. Files with many tests first: then both processes end at about the same time.
INTEROP := $(SUITE) interop tests/interop -- --durations=10 --timeout 900 --loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test sweep simulated hunt rediscovery planted-bugs mutants check pages scenarios clean-runs planted hundred spark spark-all interop interop-all bench pictures fuzz clean

help:                       ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1:\2/p' Makefile | while IFS=: read -r target text; do \
		printf '%-20s %s\n' "$$target" "$$text"; done

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# Without rmqlab itself: CI installs them beside `make check`, which imports rmqlab.
SPARK_PACKAGES = $(shell $(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	print(*map(repr, project['optional-dependencies']['spark']))")

$(VENV)/.spark: $(VENV)/.ready       # half a GB: only for what needs it
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint constraints.txt $(SPARK_PACKAGES)
	touch $@

setup: $(VENV)/.ready       ## create .venv with rmqlab, a minute; then `. .venv/bin/activate` makes `rmqlab` a command

demo: $(VENV)/.spark        ## the main job: a cluster, its master killed, the truth shown, and audited on Spark
	$(BIN)/rmqlab demo
	$(BIN)/rmqlab audit demo --report

test: $(VENV)/.ready        ## unit and process tests; needs nothing but Python; JOBS=2 uses two processes
	$(SUITE) test -- --durations=10 --ignore=tests/pipeline

sweep: $(VENV)/.ready       ## every call of the store that touches the disk fails, in every way: a minute
	$(BIN)/python -m pytest -m sweep tests/store

simulated: $(VENV)/.ready   ## long runs on simulated machines: 200 seeds played twice, and the slow scenarios
	$(BIN)/python -m pytest -m simulated tests/cluster/simulation

# New seeds begin at the present second, so each run plays others. A claim that one of them breaks is a bug to be fixed
# next, as a flaky test is, and no fault of the change that is tested: it is named, and does not fail.
HUNT := $(BIN)/rmqlab hunt --profile hardened --short --jobs 2 --no-replay
hunt: $(VENV)/.ready        ## short random schedules on simulated clusters: SEEDS=500 fixed ones, and as many new ones
	$(HUNT) --seeds $(or $(SEEDS),500)
	$(HUNT) --seeds $(or $(SEEDS),500) --first-seed $$(date +%s) || \
		echo "FLAKY hunt: a new seed broke a claim, or could not be judged; the lines above have the command"

rediscovery: $(VENV)/.ready ## a hunt of 15 minutes on the 4.9 profile must name 10 of its flaws
	$(BIN)/python -m tests.rediscovery

planted-bugs: $(VENV)/.ready ## 20 bugs put into a copy of the code, one at a time: a hunt must find 17; some minutes
	$(BIN)/python -m tests.planted_bugs

mutants: $(VENV)/.ready     ## some 350 plausible faults, one at a time: the tests must notice each; half an hour
	$(BIN)/python -m tests.mutants

check: $(VENV)/.ready       ## lint, types, import direction, what PyPI says to the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	rm -rf build/dist && mkdir -p build
	$(BIN)/python -m build --no-isolation --outdir build/dist . >build/dist.log 2>&1 || { cat build/dist.log; exit 1; }
	$(BIN)/twine check --strict build/dist/*

pages: $(VENV)/.ready       ## documents that are generated from the code: docs/checks.md, journal.md, audit-tables.md
	$(BIN)/python -m rmqlab.verdict.page >docs/checks.md
	$(BIN)/python -m rmqlab.runtime.journals.schema.page >docs/journal.md
	$(BIN)/python -m rmqlab.pipeline.tables.audittablespage >docs/audit-tables.md

scenarios: $(VENV)/.ready   ## every canonical scenario, played and judged; one table; `make spark-all` audits what it leaves
	$(BIN)/rmqlab scenarios --run --keep-stores --retry --jobs $(or $(JOBS),2)

clean-runs: $(VENV)/.ready  ## random faults under SEEDS=50 seeds, and no finding that they do not explain
	$(BIN)/python -m tests.clean_runs --seeds $(or $(SEEDS),50)

planted: $(VENV)/.spark     ## 99 kinds of violations planted in a recorded run: both judges must find each; a few minutes
	$(BIN)/python -m tests.planted

hundred: $(VENV)/.ready     ## a cluster of 100 brokers, killed master by master: a minute or two of 2 cores
	$(BIN)/rmqlab run hundred-brokers

spark: $(VENV)/.spark       ## the data sources and the audit, on Spark: the core that CI runs; needs PyPI, and no Java
	$(SPARK) -m 'spark and not long'

spark-all: $(VENV)/.spark   ## all tests on Spark, every scenario audited
	$(SPARK) -m spark

interop: $(VENV)/.ready     ## against real RocketMQ 4.9.8: the core that CI runs; needs a JDK and Maven
	$(INTEROP) -m 'interop and not long'

interop-all: $(VENV)/.spark ## all tests against real RocketMQ 4.9.8 and 5.3.3; needs a JDK and Maven
	$(INTEROP) -m interop

bench: $(VENV)/.ready       ## side by side with real RocketMQ 4.9.8; needs a JDK and Maven; BENCH='--only growth --against FILE'
	$(BIN)/python -m tests.bench $(BENCH)

MINUTES ?= 10
pictures: $(VENV)/.spark    ## draw the pictures of README anew; needs Chromium
	$(BIN)/python -m tests.pictures

fuzz: $(VENV)/.ready        ## hostile input to every socket and to our clients, for MINUTES
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

clean:                      ## remove .venv and what was built
	rm -rf $(VENV) build dist *.egg-info
