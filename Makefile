# `make demo` and `make test` do all set-up on a fresh machine; a second run installs nothing.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export OMP_WAIT_POLICY := PASSIVE

.PHONY: demo test fuzz coverage lint format bench results docs lock install clean

demo: $(READY)
	$(BIN)/fpgm demo --out demo

# Compiled tests are kept, whatever the environment says: to compile them takes each process ten seconds.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal

# Ten thousand cases and more; `make test` has a few of each kind.
fuzz: $(READY)
	FPGM_FUZZ_EXAMPLES=650 $(BIN)/python -m pytest tests/fuzz

# The web page and the command line are driven from outside: by a browser, and in processes of their own.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

TIMES ?= 1
bench: $(READY)
	TIMES=$(TIMES) $(BIN)/python benchmarks

# Tables and figures of our results in docs and README.md, from the files of results/runs; nothing is trained.
results: $(READY)
	$(BIN)/python results

docs: $(READY)
	$(BIN)/python .ci/gallery.py docs/gallery
	$(BIN)/zensical build --clean --strict

# torch goes first, so that nothing else can pull another build of it in.
$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' requirements.lock)"
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Resolve the newest versions that go with the pinned torch, in an environment of their own; then one file per extra.
lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	echo "torch==2.13.0" > build/torch.txt
	build/lock/bin/pip install --quiet -r build/torch.txt setuptools
	build/lock/bin/pip install --quiet -c build/torch.txt -e '.[dev]'
	build/lock/bin/pip freeze --all --exclude-editable --exclude pip | sed 's/^torch==.*/torch==2.13.0/' > requirements.lock
	build/lock/bin/python .ci/locks.py

# Without developers' tools: make install, or with one of the extras, make install EXTRA=web.
EXTRA ?= core
install:
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' requirements.lock)"
	$(BIN)/pip install --quiet --disable-pip-version-check -r locks/$(EXTRA).lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation .

clean:
	rm -rf .venv build demo site
