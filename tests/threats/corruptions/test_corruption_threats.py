"""The threats "corruption" and "localized"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.samples import Batch, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat
from gauntlet.threats.build import rebuild_threat
from gauntlet.threats.corruptions import corrupt, registry
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.kinds.corruption import CorruptionThreat
from gauntlet.threats.kinds.localized import LocalizedThreat
from gauntlet.threats.masks import patch_grid_mask

MODEL: Any = None  # neither threat looks at a model


def batch(count: int = 3) -> tuple[Batch, list[ImageSeed]]:
    generator = np.random.default_rng(8)
    samples = [
        Sample(f"image-{number}", generator.integers(0, 256, (48, 64, 3), dtype=np.uint8)) for number in range(count)
    ]
    return collate(samples), [ImageSeed(5, sample.id) for sample in samples]


def levels(images: torch.Tensor) -> np.ndarray:
    return (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def test_corruption_threat_corrupts_with_the_seed_of_the_image() -> None:
    data, seeds = batch()
    threat = CorruptionThreat({"name": "elastic", "severity": 4})
    perturbed = threat.perturb(MODEL, data, seeds)
    assert perturbed.images.dtype == torch.float32
    assert perturbed.region is None
    assert not threat.needs_model
    for number, sample in enumerate(data.samples):
        stream = ImageSeed(5, sample.id).stream("corruption|elastic_transform|4")
        expected = corrupt(sample.image, "elastic_transform", 4, stream)
        assert (levels(perturbed.images)[number] == expected).all()
        assert torch.equal(perturbed.images[number], torch.from_numpy(expected).permute(2, 0, 1).float() / 255)


@pytest.mark.parametrize(
    "description",
    [
        {"corruption": {"name": "fog", "severity": 2}},
        {"localized": {"corruption": {"name": "snow", "severity": 3}, "ratio": 0.3, "patch": 16}},
    ],
)
def test_an_image_does_not_depend_on_its_batch(description: dict[str, Any]) -> None:
    data, seeds = batch(4)
    together = build_threat(description).perturb(MODEL, data, seeds).images
    for number, sample in enumerate(data.samples):
        alone = build_threat(description).perturb(MODEL, collate([sample]), [seeds[number]]).images
        assert torch.equal(alone[0], together[number])


def test_localized_composes_exactly() -> None:
    data, seeds = batch()
    threat = LocalizedThreat({"corruption": {"name": "contrast", "severity": 5}, "ratio": 0.5, "patch": 16})
    perturbed = threat.perturb(MODEL, data, seeds)
    assert perturbed.region is not None
    assert perturbed.region.dtype == torch.bool
    for number, sample in enumerate(data.samples):
        mask = patch_grid_mask(48, 64, 16, 0.5, seeds[number].stream("mask"))
        assert (perturbed.region[number].numpy() == mask).all()
        whole = corrupt(sample.image, "contrast", 5)  # the mean is that of the whole image
        expected = np.where(mask[..., None], whole, sample.image)
        assert (levels(perturbed.images)[number] == expected).all()
    assert len({bytes(mask.numpy().tobytes()) for mask in perturbed.region}) == len(seeds)


def test_all_corruptions_and_severities_meet_the_same_masks() -> None:
    data, seeds = batch()
    regions = [
        LocalizedThreat({"corruption": {"name": name, "severity": severity}, "patch": 8})
        .perturb(MODEL, data, seeds)
        .region
        for name, severity in (("brightness", 1), ("brightness", 5), ("gaussian_noise", 3))
    ]
    first, *others = (region for region in regions if region is not None)
    assert len(others) == 2
    assert all(torch.equal(first, other) for other in others)


def test_localized_in_a_region() -> None:
    data, seeds = batch()
    threat = build_threat(
        {"localized": {"corruption": {"name": "fog"}, "region": {"square": {"size": "half", "position": "top-left"}}}}
    )
    perturbed = threat.perturb(MODEL, data, seeds)
    changed = (perturbed.images != data.images).any(dim=1)
    assert perturbed.region is not None
    assert perturbed.region[:, :24, :24].all()
    assert perturbed.region.sum() == len(seeds) * 24 * 24
    assert not changed[~perturbed.region].any()
    assert changed[perturbed.region].float().mean() > 0.5


@pytest.mark.parametrize(
    ("given_description", "canonical", "name"),
    [
        (
            {"corruption": {"name": "jpeg"}},
            {"corruption": {"name": "jpeg_compression", "severity": 3}},
            "jpeg_compression 3",
        ),
        (
            {"corruption": {"name": "snow", "severity": 1, "channels": "bgr", "stream": "fast"}},
            {"corruption": {"name": "snow", "severity": 1, "channels": "bgr"}},
            "snow 1 bgr",
        ),
        (
            {"localized": {"corruption": {"name": "fog"}, "ratio": "1/4"}},
            {
                "localized": {
                    "corruption": {"name": "fog", "severity": 3},
                    "ratio": 0.25,
                    "patch": 64,
                    "mode": "bernoulli",
                }
            },
            "fog 3 ratio 0.25 patch 64",
        ),
        (
            {"localized": {"corruption": {"name": "fog"}, "patch": {"height": 8, "width": 16}, "mode": "exact"}},
            {
                "localized": {
                    "corruption": {"name": "fog", "severity": 3},
                    "ratio": 0.5,
                    "patch": [8, 16],
                    "mode": "exact",
                }
            },
            "fog 3 ratio 0.5 patch 8 16 mode exact",
        ),
        (
            {"localized": {"corruption": {"name": "fog"}, "region": {"box": [0, 0, 8, 8]}}},
            {"localized": {"corruption": {"name": "fog", "severity": 3}, "region": {"box": [0, 0, 8, 8]}}},
            "fog 3 box 0 0 8 8",
        ),
    ],
)
def test_descriptions_are_canonical(given_description: dict[str, Any], canonical: dict[str, Any], name: str) -> None:
    threat = build_threat(given_description)
    assert threat.describe() == canonical
    assert threat.name == name
    again = rebuild_threat(json.loads(json.dumps(threat.describe())))
    assert again.describe() == canonical


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({"corruption": {}}, "the threat 'corruption' needs the option 'name'."),
        ({"corruption": {"name": "fogg"}}, "unknown corruption 'fogg'; did you mean 'fog' or 'fog_3d'?"),
        (
            {"corruption": {"name": "fog", "severity": 0}},
            "the severity of a corruption must be 1, 2, 3, 4 or 5, not 0.",
        ),
        ({"corruption": {"name": "fog", "severty": 1}}, "did you mean 'severity'?"),
        ({"corruption": {"name": "fog", "stream": "slow"}}, "unknown random stream 'slow'"),
        ({"corruption": {"name": "fog", "channels": "gbr"}}, "unknown channel order 'gbr'"),
        ({"corruption": {"name": "fog", "frost_textures": "x"}}, "option of the corruption 'fog' 'frost_textures'"),
        ({"corruption": {"name": "fog_3d", "depth_rule": "guess"}}, "unknown depth rule 'guess'"),
        ({"corruption": {"name": "fog", "depth_rule": "estimated"}}, "'fog' does not look at depth"),
        ({"corruption": {"name": 7}}, "the option 'name' of the threat 'corruption' is 7"),
        ({"localized": {"ratio": 0.5}}, "the threat 'localized' needs the option 'corruption'."),
        ({"localized": {"corruption": {"name": "fog"}, "ratio": 1.5}}, "ratio must lie in [0, 1], not 1.5."),
        (
            {"localized": {"corruption": {"name": "fog"}, "patch": 0}},
            "patch must be a whole number of pixels from 1 on",
        ),
        ({"localized": {"corruption": {"name": "fog"}, "mode": "some"}}, "unknown mode of a patch mask 'some'"),
        ({"localized": {"corruption": {"name": "fog"}, "region": {"disk": {}}}}, "unknown mask 'disk'"),
        (
            {"localized": {"corruption": {"name": "fog"}, "ratio": 0.5, "region": {"box": [0, 0, 1, 1]}}},
            "either a region or ratio, patch and mode, not both",
        ),
        ({"localized": {"corruption": {"name": "fog"}, "pach": 3}}, "did you mean 'patch'?"),
    ],
)
def test_bad_descriptions(description: dict[str, Any], said: str) -> None:
    with pytest.raises(GauntletError) as caught:
        build_threat(description)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bare_name_is_severity_3() -> None:
    assert build_threat("fog").describe() == {"corruption": {"name": "fog", "severity": 3}}
    with pytest.raises(UnknownNameError, match="'fog'"):
        build_threat("fogg")


@pytest.fixture
def haze() -> Iterator[None]:
    """A corruption with options of its own, registered as a plain function."""

    def haze(image: np.ndarray, severity: int, draws: Draws, density: float = 0.5, tint: str = "grey") -> np.ndarray:
        level = {"grey": 128, "white": 255}[tint]
        return (image * (1 - density) + level * density).astype(np.uint8)

    registry.add("haze", haze, aliases=("mist",))
    yield
    del registry._entries["haze"], registry._aliases["mist"]


@pytest.mark.usefixtures("haze")
def test_options_of_a_corruption_reach_it_from_a_description() -> None:
    data, seeds = batch(1)
    image = data.samples[0].image
    threat = build_threat({"corruption": {"name": "mist", "severity": 2, "density": 0.25, "tint": None}})
    assert threat.describe() == {"corruption": {"name": "haze", "severity": 2, "density": 0.25}}
    assert threat.name == "haze 2 density 0.25"
    expected = (image * 0.75 + 128 * 0.25).astype(np.uint8)
    assert (levels(threat.perturb(MODEL, data, seeds).images)[0] == expected).all()
    plain = build_threat("haze")
    assert plain.describe() == {"corruption": {"name": "haze", "severity": 3}}
    assert (levels(plain.perturb(MODEL, data, seeds).images)[0] == (image * 0.5 + 64).astype(np.uint8)).all()


@pytest.mark.usefixtures("haze")
def test_options_of_a_corruption_reach_it_inside_a_localized_threat() -> None:
    data, seeds = batch(1)
    image = data.samples[0].image
    inner = {"name": "haze", "severity": 2, "density": 1.0, "tint": "white"}
    threat = build_threat({"localized": {"corruption": inner, "region": {"box": [0, 0, 8, 8]}}})
    assert threat.describe() == {"localized": {"corruption": inner, "region": {"box": [0, 0, 8, 8]}}}
    assert threat.name == "haze 2 density 1 tint white box 0 0 8 8"
    actual = threat.perturb(MODEL, data, seeds)
    assert actual.region is not None
    inside = actual.region[0].numpy()
    assert inside.sum() == 64
    assert (levels(actual.images)[0][inside] == 255).all()
    assert (levels(actual.images)[0][~inside] == image[~inside]).all()


@pytest.mark.usefixtures("haze")
def test_an_option_that_the_corruption_does_not_have_is_one_sentence() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"corruption": {"name": "haze", "densty": 1}},
            "unknown option of the corruption 'haze' 'densty'; did you mean",
        ),
        ({"corruption": {"name": "fog", "density": 1}}, "unknown option of the corruption 'fog' 'density'"),
        ({"corruption": {"nam": "haze"}}, "unknown option of the threat 'corruption' 'nam'; did you mean 'name'?"),
        ({"localized": {"corruption": {"name": "mist", "densit": 1}}}, "'haze' 'densit'; did you mean 'density'?"),
    ]
    for description, said in cases:
        with pytest.raises(UnknownNameError) as caught:
            build_threat(description)
        assert said in str(caught.value)


def test_the_frost_pictures_are_an_option_of_frost() -> None:
    threat = build_threat({"corruption": {"name": "frost", "frost_textures": "pictures", "channels": "bgr"}})
    assert threat.describe() == {
        "corruption": {"name": "frost", "severity": 3, "frost_textures": "pictures", "channels": "bgr"}
    }
    none = build_threat({"corruption": {"name": "frost", "frost_textures": None}})
    assert none.describe() == {"corruption": {"name": "frost", "severity": 3}}
