# Two commands for a fresh machine with Python 3.11 or newer, Java 17 and make:
#   make demo   installs kshadow alone, then diagnoses a real embedded Kafka broker under real faults
#   make test   sets up the rest, then runs the tests
# and for whoever changes the code:
#   make thorough  the tests that take long; `make test` has a smaller one of each
#   make check  lint, types, contracts, and every test that needs no broker, browser, cluster, Spark or other program
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
# Tests that need brokers wait most of the time, so two cores are enough for six processes. One that crashes ends the run:
# pytest-xdist 3.8, which shares tests out by file here, may wait for ever where it starts another.
WORKERS ?= 6
# Hundreds of processes load the same modules: they keep them compiled, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: demo test thorough check lint tools image node bench spark-bench commits rig admin-source accuracy faults soak fuzz simulate site clean setup

setup: $(READY)

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# What the demo needs, and no more: not the part that is compiled by Zig. Modules are compiled as they are first loaded: most never are.
$(DEMO_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kshadow needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo "Python's venv module is missing (Debian and Ubuntu: install the package python3-venv)"; exit 1; }
	@echo "Installing kshadow into $(VENV), once"
	@tmp=$$(mktemp -d) || exit 1; export TMPDIR="$$tmp"; trap 'rm -rf "$$tmp" $(VENV); exit 130' HUP INT TERM; \
		$(PYTHON) -m venv --clear $(VENV) && HATCH_BUILD_NO_HOOKS=true $(PIP) '.[demo]' --no-compile; code=$$?; rm -rf "$$tmp"; exit $$code
	@touch $@

# The rest, for tests and tools, and the compiled part. Of pip's versions the one that Python brings may take a minute longer.
$(READY): $(DEMO_READY) agent/common/native/commits.c hatch_build.py
	@echo "Installing what tests need into $(VENV), once"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	@$(PIP) '.[dev]' --no-compile
	@touch $@

demo: $(DEMO_READY)
	@$(BIN)/kshadow demo $(DEMO)

# What waits for a broker, a browser or a cluster may run once more (tests/conftest.py); the summary names it, with both tries.
RUN = $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations 12 -r fERs
NOTHING = not (kafka or spark or browser or kubernetes or process)

# Lint beside the tests: most of these wait for brokers. What it found is printed after theirs, and fails the run as well.
# First, side by side: archives of classes and a broker's data, and every test module compiled, which each process would
# do for itself.
test: $(READY)
	@$(BIN)/python -m pytest --collect-only -q > /dev/null 2>&1 & \
	$(BIN)/python -m tests.harness.class_archives || echo "Without archives of classes JVMs start more slowly" >&2; \
	wait
	@mkdir -p .cache; $(MAKE) --no-print-directory lint > .cache/lint.log 2>&1 & lint=$$!; \
	$(RUN) -n $(WORKERS) -m 'not thorough' $(PYTEST); tests=$$?; \
	wait $$lint && exit $$tests; cat .cache/lint.log; exit 1

# What takes long, and of which `test` has a smaller twin.
thorough: $(READY)
	$(RUN) -n 3 -m thorough $(PYTEST)

check: $(READY) lint
	$(RUN) -n 3 -m '$(NOTHING)' tests/unit tests/harness tests/generate $(PYTEST)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Tools of other projects that tests run (helm, prometheus, a Kubernetes API server): built by Go, once for each version.
# And definitions of custom resources, of Prometheus Operator, Spark operator and Strimzi.
tools: $(READY)
	$(BIN)/python -m tests.harness.tools $(TOOLS)
	$(BIN)/python -m tests.harness.kube_definitions

# Built by buildah and run by runc, as root.
image: $(READY)
	$(BIN)/python -m tests.harness.image $(IMAGE)

# A cluster with a kubelet of its own, in namespaces of its own; as root.
node: $(READY)
	$(BIN)/python -m tests.harness.node $(NODE)

bench: $(READY)
	$(BIN)/python -m tests.harness.bench $(BENCH)

spark-bench: $(READY)
	$(BIN)/python -m tests.harness.spark.bench $(SPARK_BENCH)

commits: $(READY)
	$(BIN)/python -m tests.harness.spark.commits $(COMMITS)

rig: $(READY)
	$(BIN)/python -m tests.harness.rig $(RIG)

admin-source: $(READY)
	$(BIN)/python -m tests.harness.admin_source $(ADMIN_SOURCE)

accuracy: $(READY)
	$(BIN)/python -m tests.harness.rig.accuracy $(CAPTURES) --out docs/accuracy.md --mistakes

faults: $(READY)
	$(BIN)/python -m tests.harness.faults $(FAULTS)

soak: $(READY)
	$(BIN)/python -m tests.harness.faults.soak $(SOAK)

fuzz: $(READY)
	$(BIN)/python -m tests.harness.fuzz $(FUZZ)

simulate: $(READY)
	$(BIN)/python -m tests.harness.deterministic $(SIMULATE)

# The documentation as a website, in build/docs/site; a link or an anchor that leads nowhere fails it.
site: $(READY)
	$(BIN)/python -m tests.generate.docs.site

clean:
	rm -rf $(VENV) .cache build dist agent/common/native/*.so
