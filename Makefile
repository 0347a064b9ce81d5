# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv by itself.
# Options of pytest go into ARGS: make test ARGS="-k beam".
PYTHON ?= python3
BIN := .venv/bin
export DRAGOMAN_DATA ?= $(abspath ../shared/data)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal

.PHONY: demo native test durations nightly quick sanitize check-docs docs dist release-check coverage test-lowest check setup clean

demo: .venv/demo
	$(BIN)/dragoman demo

# The library of compiled searches of this checkout; tests build it by themselves where it is older than its source.
native: .venv/installed
	$(BIN)/python setup.py --quiet build_native --inplace

test: .venv/installed
	$(PYTEST) -m "not nightly" $(ARGS)

# The same, and what it took into tests/durations.json, which `make check` compares with tests/budgets.toml.
durations: .venv/installed
	mkdir -p build
	$(PYTEST) -m "not nightly" --junitxml=build/tests.xml $(ARGS)
	$(BIN)/python tests/durations.py build/tests.xml

# All tests, those that take a quarter of a minute and more by themselves as well.
nightly: .venv/installed
	$(PYTEST) $(ARGS)

# The unit tests that are neither slow nor need a browser: to be run after every change.
quick: .venv/installed
	$(PYTEST) -m "not slow and not browser and not nightly" tests/unit $(ARGS)

# The tests of compiled searches under gcc's sanitizers, with every variant that this processor can run, and ARM's in an
# emulator (apt install gcc-aarch64-linux-gnu qemu-user).
sanitize: export DRAGOMAN_NATIVE_FLAGS = -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover
sanitize: .venv/installed
	rm -rf build/sanitized
	CC=gcc $(BIN)/python setup.py --quiet build --build-lib build/sanitized
	for variant in $$($(SANITIZED) -c "from dragoman.native import native; print(*native().variants)"); do \
		DRAGOMAN_NATIVE=$$variant $(SANITIZED) -m pytest --capture=sys -k "compiled or greedy_and_beam or exact" -rs $(SEARCHES) $(ARGS) || exit; done
	ASAN_OPTIONS=detect_leaks=0 $(BIN)/python -m pytest -m nightly -rs tests/unit/test_processors.py $(ARGS)

SEARCHES = tests/unit/model tests/unit/decoding tests/unit/predict/test_shortlist.py tests/unit/test_processors.py -m "not nightly"
SANITIZED = PYTHONPATH=build/sanitized LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
	OMP_NUM_THREADS=1 $(BIN)/python

# The repository itself: examples and links of the documentation, generated pages, notebooks, packaging, deploy/.
check-docs: .venv/installed
	$(PYTEST) tests/docs $(ARGS)

# The documentation as a site, site/VERSION/; fails on a broken link, a missing anchor or a page that is in no menu.
docs: .venv-docs/installed
	.venv-docs/bin/python docs/stage_site.py build/pages --site site
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet --site-dir site/$(VERSION)

# Wheel and sdist of the last commit, in dist/.
dist: .venv-release/installed
	.venv-release/bin/python tools/release_check.py --only distributions

# All that can be tried of a release here: built twice, installed, run, validated.
release-check: .venv-release/installed
	.venv-release/bin/python tools/release_check.py

.venv-release/installed: constraints.txt
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/pip install --quiet --constraint constraints.txt build check-jsonschema check-wheel-contents \
		cyclonedx-bom kubernetes-validate setuptools twine zizmor
	touch $@

VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/dragoman/__init__.py)

.venv-docs/installed: constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --constraint constraints.txt jieba mkdocs-material 'mkdocstrings[python]'
	touch $@

# The lines of src/dragoman that unit tests run; fails below `fail_under` of pyproject.toml.
coverage: .venv/installed
	$(PYTEST) --cov --cov-report=term:skip-covered tests/unit $(ARGS)

# The lowest versions of the core dependencies, without any extra (tests/core.txt); old ones meet deprecations in new ones.
test-lowest: .venv-lowest/installed
	OMP_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -n 2 -W ignore::DeprecationWarning @tests/core.txt

.venv-lowest/installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --constraint constraints-lowest.txt --editable . pytest pytest-xdist hypothesis
	touch $@

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/house.py --ceilings
	$(BIN)/python tests/durations.py

setup: .venv/installed

.venv/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[plots]'
	touch $@

.venv/installed: .venv/demo
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps joeynmt argostranslate minisbd stanza emoji
	touch $@

clean:
	rm -rf .venv .venv-docs .venv-lowest .venv-release runs build dist site src/*.egg-info
