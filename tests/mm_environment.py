"""The environment of `make mm-test`: OpenMMLab's packages must be there, so that no test skips silently."""

from __future__ import annotations

import importlib
import warnings

import pytest

MODULES = ("mmcv.ops", "mmengine", "mmseg.apis", "mmdet.apis")


def pytest_configure() -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a hundred lines on what torch thinks of mmcv
            for module in MODULES:
                importlib.import_module(module)
    except ImportError as error:
        raise pytest.UsageError(f"the environment of OpenMMLab is not complete: {error}") from None
