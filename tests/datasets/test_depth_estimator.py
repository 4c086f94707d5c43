"""A depth estimator of transformers on photographs: a tiny network of random weights, from a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gauntlet
from gauntlet.datasets.depth_maps import with_depth
from gauntlet.samples import Sample

pytestmark = pytest.mark.zoo


@pytest.fixture
def estimator(tmp_path: Path) -> Path:
    """A DPT of 32x32 pixels."""
    transformers = pytest.importorskip("transformers")
    config = transformers.DPTConfig(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8, is_hybrid=False,
    )  # fmt: skip
    folder = tmp_path / "estimator"
    transformers.DPTForDepthEstimation(config).save_pretrained(folder)
    transformers.DPTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def test_photographs_get_depth_of_their_own_size(estimator: Path) -> None:
    scenes = gauntlet.load_dataset("streets", size=(48, 64), length=2)
    data = with_depth(scenes, f"hf:{estimator}", None)
    sample: Sample = data[1]
    assert sample.depth is not None
    assert sample.depth.shape == (48, 64)
    assert sample.depth.dtype == np.float32
    assert float(sample.depth.min()) >= 1  # inverse depth over its largest value, upside down
    assert np.array_equal(sample.depth, data[1].depth)  # type: ignore[arg-type]
    assert data.identity != scenes.identity


def test_a_corruption_in_3d_runs_with_estimated_depth(estimator: Path) -> None:
    data = with_depth(gauntlet.load_dataset("streets", size=(48, 64), length=2), f"hf:{estimator}", None)
    fog = {"corruption": {"name": "fog_3d", "severity": 3, "depth_rule": "estimated"}}
    result = gauntlet.evaluate("streets/enet", data, fog)
    assert len(result.per_image) == 2
    assert np.isfinite(result.figures["aAcc"])
