# `make demo` and `make test` do everything on a fresh machine: environment, installation, the job.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ZOO_VENV ?= .venv-zoo
MM_VENV ?= .venv-mm
MIN_VENV ?= .venv-min
MM := torch==2.13.0 mmcv-lite==2.1.0 mmengine==0.10.7 mmsegmentation==1.2.2 mmdet==3.3.0 ftfy regex
# One torch thread per test process: two processes with two threads each halve the speed of both (docs/performance.md).
WORKERS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope
# Images of containers often forbid Python to keep what it compiled; then every process here would compile all of it anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test coverage test-slow zoo-test mm-test min-test check docs tutorials format clean

demo: $(VENV)/.installed
	$(BIN)/gauntlet demo

# SELECT="slow or not slow" runs both kinds in one, as .ci/run does: collected once, the files with slow tests first
# (tests/conftest.py), none left for last.
test: $(VENV)/.installed-dev
	$(PYTEST) $(if $(SELECT),--no-loadscope-reorder -m "$(SELECT)")

# The same with the lines that no test reaches; tracing them costs processor time, so `make test` does not.
coverage: $(VENV)/.installed-dev
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

# What must be slow: deselected above (pyproject.toml).
test-slow: $(VENV)/.installed-dev
	$(PYTEST) -m slow

# The adapters of other libraries, in an environment of their own (docs/models.md says what is in it and what it costs).
zoo-test: $(ZOO_VENV)/.installed
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(ZOO_VENV)/bin/python -m pytest -n $(WORKERS) --dist loadscope -p zoo_environment -m zoo \
	  tests/models/sources tests/examples tests/datasets/test_dataset_hf.py \
	  tests/datasets/test_depth_estimator.py tests/first_hour

# OpenMMLab's own models (docs/openmmlab.md), from PyPI alone: a stand-in takes the place of mmcv's compiled operators.
mm-test: $(MM_VENV)/.installed
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(MM_VENV)/bin/python -m pytest -n $(WORKERS) -p mm_environment -m mm tests/openmmlab

# The lowest versions that pyproject.toml declares (constraints-min.txt), and the plain tests that depend on them.
MIN_TESTS := tests/cli/test_cli.py tests/core/test_numbers.py tests/core/test_minimum_versions.py tests/metrics/test_segmentation.py \
  tests/metrics/test_detection.py tests/results/test_store.py tests/results/test_golden_keys.py \
  tests/datasets/test_dataset_loading.py tests/datasets/test_dataset_protocols.py tests/threats/test_build.py \
  tests/threats/corruptions/test_corruption_reference.py tests/threats/attacks/test_attack_closed_form.py \
  tests/evaluation/test_evaluate.py tests/analysis/test_summary.py tests/models/test_wrapping.py
min-test: $(MIN_VENV)/.installed
	OMP_NUM_THREADS=1 $(MIN_VENV)/bin/python -m pytest $(MIN_TESTS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src

# The documentation as a site, into site/; any warning or dead link is an error.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict  # --quiet would count no warning

# Runs the notebooks of docs/tutorials and keeps what they print and draw.
tutorials: $(VENV)/.installed-dev
	$(BIN)/python scripts/tutorials.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(ZOO_VENV)/.installed: pyproject.toml constraints.txt
	test -x $(ZOO_VENV)/bin/python || $(PYTHON) -m venv $(ZOO_VENV)
	$(ZOO_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(ZOO_VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[zoo]' pytest pytest-xdist hypothesis
	touch $@

$(MIN_VENV)/.installed: pyproject.toml constraints-min.txt
	test -x $(MIN_VENV)/bin/python || $(PYTHON) -m venv $(MIN_VENV)
	$(MIN_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(MIN_VENV)/bin/python -m pip install --quiet -c constraints-min.txt -e '.[parquet]' pytest hypothesis
	touch $@

$(MM_VENV)/.installed: pyproject.toml constraints.txt tests/openmmlab/mmcv_ext.py
	test -x $(MM_VENV)/bin/python || $(PYTHON) -m venv $(MM_VENV)
	$(MM_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(MM_VENV)/bin/python -m pip install --quiet -c constraints.txt $(MM) -e . pytest pytest-xdist hypothesis
	cp tests/openmmlab/mmcv_ext.py $$(echo $(MM_VENV)/lib/python3*/site-packages/mmcv)/_ext.py
	touch $@

clean:
	rm -rf $(VENV) $(ZOO_VENV) $(MM_VENV) $(MIN_VENV) build dist site .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis gauntlet-demo
