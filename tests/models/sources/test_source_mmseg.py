"""mmseg: and mmdet: without the libraries; tests/openmmlab has the tests with them."""

from __future__ import annotations

import importlib.util

import pytest

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model


@pytest.mark.parametrize("library", ["mmseg", "mmdet"])
def test_code_runs_only_when_trusted(library: str) -> None:
    with pytest.raises(GauntletError, match=r"is Python code and its checkpoint a pickle.*pass trust=True"):
        gauntlet.load_model(f"{library}:fcn_r50", weights="w.pth")
    with pytest.raises(GauntletError, match="needs its checkpoint"):
        gauntlet.load_model(f"{library}:fcn_r50", trust=True)
    with pytest.raises(GauntletError, match="there is no folder nowhere"):
        gauntlet.load_model(f"{library}:fcn_r50", weights="https://x.org/w.pth", trust=True, checkpoints="nowhere")


@pytest.mark.parametrize("library", ["mmseg", "mmdet"])
def test_without_the_library_one_sentence_says_so(library: str) -> None:
    if importlib.util.find_spec(library) is not None:
        pytest.skip(f"{library} is installed here")
    with pytest.raises(GauntletError, match=f"runs in an OpenMMLab environment of yours, but {library} cannot be"):
        gauntlet.load_model(f"{library}:fcn_r50", weights="w.pth", trust=True)


def test_the_identity_needs_no_library() -> None:
    source = resolve_model("mmseg:net_r1.5", weights="w.pth", trust=True)
    assert (source.identity.name, source.task) == ("net_r1.5", "segmentation")
