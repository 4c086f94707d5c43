from __future__ import annotations

from pathlib import Path

import pytest
from training_squares import recipe

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks import build as build_attack
from gauntlet.training.config import ScheduleConfig, load_config, parse_config
from gauntlet.training.schedule import learning_rate_factor

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_committed_recipe_is_valid_and_named_after_its_file(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    assert parse_config(config.as_dict()) == config


@pytest.mark.parametrize("path", sorted((CONFIGS / "camvid").glob("*.yaml")), ids=lambda path: path.stem)
def test_recipes_for_camvid_differ_in_the_training_only(path: Path) -> None:
    config, normal = load_config(path), load_config(CONFIGS / "camvid" / "enet.yaml")
    assert config.name == f"camvid-{path.stem}"
    assert (config.data, config.batch_size) == (normal.data, normal.batch_size)
    # The first one, which all E-Nets start from, was trained on larger crops.
    assert config.augmentation.crop == ((144, 192) if path.stem == "enet" else (128, 160))
    cropped = {"crop": normal.augmentation.crop}
    assert config.augmentation.model_copy(update=cropped) == normal.augmentation
    if config.adversarial is None:
        assert path.stem in ("enet", "bisenetv2", "segformer", "segformer-small")
        return
    attack = config.adversarial.attack
    assert (attack["epsilon"], attack["steps"]) == ("8/255", 3)
    shares = {"at25": 0.25, "at50": 0.5, "segpgd50": 0.5, "ddc": 0.5, "at75": 0.75}
    assert config.adversarial.share == shares.get(path.stem.rpartition("-")[2], 1.0)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("halmosi-*.yaml")), ids=lambda path: path.stem)
def test_recipes_of_the_supplement_have_its_settings(path: Path) -> None:
    config = load_config(path)
    crop = 473 if "-voc-" in path.stem else 449
    assert (config.batch_size, config.augmentation.crop) == (16, (crop, crop))
    optimiser = config.optimiser
    assert (optimiser.name, optimiser.learning_rate, optimiser.weight_decay) == ("sgd", 0.01, 1e-4)
    if path.stem.endswith("normal"):
        assert config.adversarial is None
        return
    assert config.adversarial is not None
    assert config.adversarial.attack["epsilon"] == 0.03
    assert config.adversarial.share == (1.0 if path.stem.endswith("-100") else 0.5)
    build_attack(**config.adversarial.attack)


def test_there_is_a_recipe_of_the_supplement_for_every_training() -> None:
    assert len(list(CONFIGS.glob("halmosi-*.yaml"))) == 2 * 2 * 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": {}}, "unknown field 'optimizer'"),
        ({"optimiser": {"lr": 1}}, "unknown field 'optimiser.lr'"),
        ({"steps": 3}, "give either steps or epochs"),
        ({"batch_size": 6, "accumulation": 4}, "batch_size 6 must be a multiple of accumulation 4"),
        ({"adversarial": {"attack": {"epsilon": "8/255"}}}, "adversarial: attack needs a name"),
        ({"adversarial": {"attack": {"name": "pgd"}, "share": 0}}, "share must be above 0"),
        ({"adversarial": {"attack": {"name": "pgd"}, "method": "ddc-at"}}, "set share to 0.5"),
        ({"optimiser": {"learning_rate": "fast"}}, "must be a number such as"),
    ],
)
def test_a_fault_is_said_in_one_sentence(changes: dict[str, object], message: str) -> None:
    with pytest.raises(GauntletError, match=message):
        parse_config(recipe(**changes))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match=r"the training recipe .* cannot be read"):
        load_config(tmp_path / "missing.yaml")
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(GauntletError, match="is not valid YAML"):
        load_config(tmp_path / "broken.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(GauntletError, match="must be a mapping"):
        load_config(tmp_path / "list.yaml")


def test_sea_at_fills_in_the_published_recipe_where_the_user_says_nothing() -> None:
    config = parse_config(recipe(adversarial={"method": "sea-at", "attack": {"epsilon": "8/255"}}))
    assert config.adversarial is not None
    assert config.adversarial.attack == {"name": "pgd", "epsilon": "8/255", "alpha": 0.01, "steps": 5}
    assert (config.schedule.name, config.schedule.warmup) == ("linear", 0.2)
    own = parse_config(recipe(adversarial={"method": "sea-at"}, schedule={"name": "cosine"}))
    assert own.schedule.name == "cosine"


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        ({"name": "poly", "power": 0.9}, 0, 1.0),
        ({"name": "poly", "power": 0.9}, 50, 0.5**0.9),
        ({"name": "linear"}, 75, 0.25),
        ({"name": "cosine"}, 50, 0.5),
        ({"name": "constant"}, 99, 1.0),
        ({"name": "linear", "warmup": 0.2, "warmup_start": 0.1}, 0, 0.1),
        ({"name": "linear", "warmup": 0.2, "warmup_start": 0.1}, 10, 0.55),
        ({"name": "linear", "warmup": 0.2, "warmup_start": 0.1}, 20, 1.0),
        ({"name": "linear", "warmup": 0.2, "final": 0.1}, 60, 0.55),
    ],
)
def test_learning_rate_at_a_step_of_a_hundred(schedule: dict[str, object], step: int, expected: float) -> None:
    assert learning_rate_factor(ScheduleConfig.model_validate(schedule), step, 100) == pytest.approx(expected)
