# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs; running again is fast.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test golden check lint fuzz lock sbom advisories notebooks clean

demo: $(VENV)/.installed
	$(BIN)/pathveil demo --out demo

# Two processes of one thread each: faster than one of two, and small models spend their time waiting for threads. Numba
# starts OpenMP with its own number, which PyTorch then takes as well: both are told.
# A test that hangs ends its process after ten minutes (pyproject.toml); no other takes its place, which would hang too.
test: $(VENV)/.installed-dev check
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder \
	    --max-worker-restart 0 --durations 15

# What the package does, against what was recorded (tests/golden). RECORD=1 records it anew; ONLY='exact/import/*' is a part.
ONLY ?= *
golden: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -W ignore tests/golden/compare.py --only '$(ONLY)' $(if $(RECORD),--record)

# Lint, types and the layer rule; doctests run with the tests.
check: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ty check
	$(BIN)/lint-imports

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix src tests benchmarks examples
	$(BIN)/ruff format src tests benchmarks examples

# Lies in files and messages of every kind, to every reader: see docs/security.md. CASES=200000 is the whole of it.
CASES ?= 20000
fuzz: $(VENV)/.installed-dev
	$(BIN)/python tests/fuzz/run.py --cases $(CASES)

# What we depend on: pins with hashes, a list of parts, known defects from a stored file (docs/security.md).
lock sbom advisories: $(VENV)/.installed-dev
	$(BIN)/python tools/supply.py $(if $(filter advisories,$@),audit,$@)

# An environment of an older Python, or one that was not finished, would stay and be taken for ours the next time.
.DELETE_ON_ERROR:
NEEDED := Pathveil needs Python 3.11 or newer; $(PYTHON) is %s. Name another: make PYTHON=python3.11
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(NEEDED)" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[serve]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/.installed

# The examples as notebooks; a test holds them against the examples.
notebooks: $(VENV)/.installed-dev
	$(BIN)/python tests/notebooks.py

clean:
	rm -rf $(VENV) demo
