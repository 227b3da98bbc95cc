# Every target sets up what it needs: Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
NATIVE := .venv-native
PROFILE := $(abspath $(NATIVE))/profile
# `make native PROFILED=no` builds once, and optimizes little, in less than half the time: enough for tests, not for measurements.
PROFILED := yes
COMPILED := $(NATIVE)/.ready$(if $(filter no,$(PROFILED)),-without-profile)
# Most of what is installed is never imported, so it is compiled when it is.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --no-compile
NATIVE_PIP := $(PIP:$(BIN)%=$(NATIVE)/bin%) --quiet
# The compiled build has an environment of its own, and shares all packages that aren't in it with the first one.
SITE := import sysconfig; print(sysconfig.get_path("purelib"))
DEMO_NEEDS := import tomllib; print("rich", *tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")

# What runs against the compiled build too: all tests of behaviour. Those of documentation, structure, packaging,
# examples and benchmarks run once.
NATIVE_TESTS := tests/unit tests/integration tests/property tests/differential tests/simulation \
    $(patsubst %,tests/e2e/test_%.py,control_socket expect leaks lingering malformed_requests pool_gate prometheus \
    refused_start reload servers shutdown slow_clients streams workers)

# What `make test` runs; TESTS='tests --ignore=tests/simulation' leaves a folder out.
TESTS := tests

# Python prefers the package in the working directory to the installed one, so the compiled build is used in a copy
# of the checkout without the package.
define NATIVE_CHECKOUT
rm -rf $(NATIVE)/checkout && mkdir $(NATIVE)/checkout
git ls-files -z --cached --others --exclude-standard ':!apf_middleware' | tar --null -T - -c | tar -x -C $(NATIVE)/checkout
endef

# For two cores: end-to-end tests wait now and then.
PYTEST := -m pytest --numprocesses=4 --dist=loadfile --no-loadscope-reorder

# Tests start some hundred processes, and each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench native test-native bench-native docs types dist clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(DEMO)  ## an elephant and some mice before a real server, with and without protection (20 s); CONSOLE=1: in a browser
	@$(BIN)/python -m examples.demo $(if $(CONSOLE),--console)

test: check  ## everything: lint, types, contracts, tests
	$(BIN)/python $(PYTEST) $(TESTS)

check: $(READY)  ## ruff, mypy strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

format: $(READY)  ## let ruff format and mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## speed of the core and of classification, then fairness
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.classify
	$(BIN)/python -m benchmarks.fairness

native: $(COMPILED)  ## the compiled build (needs a C compiler), installed into .venv-native

test-native: $(COMPILED)  ## the tests of behaviour, with the compiled build
	$(NATIVE_CHECKOUT)
	ln -sfn $(abspath ../shared) $(NATIVE)/shared
	cd $(NATIVE)/checkout && ../bin/python $(PYTEST) $(NATIVE_TESTS)

bench-native: $(COMPILED)  ## speed of the core, of classification and of the middleware, with the compiled build
	$(NATIVE_CHECKOUT)
	cd $(NATIVE)/checkout && for name in core classify overhead; do ../bin/python -m benchmarks.$$name || exit; done

docs: $(READY)  ## the documentation's site, into site/
	$(BIN)/python -m docs.generate.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "look at site/index.html"

types: $(READY)  ## is everything that users can import typed? (pyright)
	PATH="$(CURDIR)/$(BIN):$$PATH" pyright --verifytypes apf_middleware --ignoreexternal

dist: $(READY)  ## wheel and source distribution, into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

clean:  ## remove what the targets above made
	rm -rf $(VENV) $(NATIVE) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The wheel is built from the source distribution, because the build leaves compiled files beside the sources. It is built
# twice: first with counters, to find out what happens often, and then for that.
ifeq ($(PROFILED),no)
$(COMPILED): export CC := sh -c 'exec $(CC) "$$@" -O1 -g0' cc
endif
$(COMPILED): export DIST_EXTRA_CONFIG := $(abspath $(NATIVE))/setup.cfg
$(COMPILED): pyproject.toml $(shell find apf_middleware -name '*.py') | $(READY)
	rm -rf $(NATIVE)/dist $(NATIVE)/.ready*
	$(BIN)/python -m build --no-isolation --sdist --outdir $(NATIVE)/dist
	printf '[build_ext]\nparallel = 2\n' >$(NATIVE)/setup.cfg
ifeq ($(PROFILED),no)
	mkdir -p $(PROFILE)/build && : >$(PROFILE)/cflags
else
	$(BIN)/python -m benchmarks.profiled_build --no-build-isolation $(NATIVE)/dist/*.tar.gz $(PROFILE)
endif
	HATCH_BUILD_HOOK_ENABLE_MYPYC=1 HATCH_MYPYC_BUILD_DIR=$(PROFILE)/build CFLAGS=@$(PROFILE)/cflags \
	    $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(NATIVE)/dist $(NATIVE)/dist/*.tar.gz
	rm -rf $(PROFILE)
	@[ -d $(NATIVE)/bin ] || $(PYTHON) -m venv $(NATIVE)
	@$(BIN)/python -c '$(SITE)' >"$$($(NATIVE)/bin/python -c '$(SITE)')/shared.pth"
	@$(NATIVE_PIP) --force-reinstall --no-deps $(NATIVE)/dist/*.whl
	@$(NATIVE)/bin/python -I tests/smoke.py compiled
	@touch $@

# One environment in two steps: what the demo needs is there in seconds, and everything else comes on top of it.

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Python 3.11 or newer is needed, {sys.executable} is {v[0]}.{v[1]}: try make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml | $(VENV)/bin/python
	@echo "Installing what the demo needs into $(VENV): some 20 packages, 60 MB."
	@$(BIN)/python -c '$(DEMO_NEEDS)' >$(VENV)/demo.txt
	@$(PIP) --requirement $(VENV)/demo.txt
	@touch $@

$(READY): pyproject.toml | $(VENV)/bin/python
	@echo "Installing all that tests, documentation and releases need into $(VENV): some 150 packages, 1 GB, a few minutes."
	@$(PIP) --quiet --upgrade 'pip>=25.1'
	@$(PIP) --editable '.[cli,jwt]' --group dev
	@touch $(DEMO) $@
