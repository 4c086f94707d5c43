"""Two real packages, installed with pip: one with a plug-in of every kind, and beside it one with only broken ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fresh_python import FreshPython

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"

MISSING = (
    "the attack 'needs-more' of the package 'gauntlet-sicklab' cannot be used: ModuleNotFoundError: No module named "
    "'a_package_that_nobody_has'; update or uninstall that package."
)
BROKEN = {
    MISSING,
    "the attack 'pgd' of the package 'gauntlet-sicklab' cannot be used: its name is taken already; update or uninstall "
    "that package.",
    "the battery 'sevens' of the package 'gauntlet-sicklab' cannot be used: the battery 'sevens' must be a mapping "
    "from the name of a member to an attack's name and its options, but it is of the type int; update or uninstall "
    "that package.",
    "the corruption 'seven' of the package 'gauntlet-sicklab' cannot be used: the corruption 'seven' must be a "
    "function of (image, severity, draws) or a Corruption, but it is of the type int; update or uninstall that "
    "package.",
    "the dataset 'nowhere' of the package 'gauntlet-sicklab' cannot be used: AttributeError: module 'sicklab.numbers' "
    "has no attribute 'nowhere'; update or uninstall that package.",
    "the threat 'eclipse' of the package 'gauntlet-sicklab' cannot be used: ModuleNotFoundError: No module named "
    "'a_package_that_nobody_has'; update or uninstall that package.",
}

PROGRAM = """
import json, sys
import gauntlet
import torch
from gauntlet.metrics import WHOLE, metrics
from gauntlet.threats import attacks, corruptions

listed = {
    "attacks": attacks.names(),
    "corruptions": corruptions.names(),
    "lab": corruptions.names("lab"),
    "imported by listing": [name for name in sys.modules if name == "scenelab.attacks"],
}
dataset = gauntlet.load_dataset("scenes", level=150)
model = gauntlet.load_model("brightness:0.5")
image = dataset[0].image
metric = metrics["agreement"](dataset.class_names)
verdicts = [metric.update(sample.labels, sample.labels) for sample in dataset]
verdicts += [metric.update(1 - dataset[0].labels, dataset[0].labels)]

def attacked(**options):
    step = attacks.build("pgd", epsilon=0.5, alpha=0.1, steps=1, random_start=False, **options)
    images = dataset[0].tensor()[None]
    return (step(model, images, torch.from_numpy(dataset[0].labels)[None]).images - images).amax((0, 2, 3))

def sentence(work):
    try:
        work()
    except gauntlet.GauntletError as error:
        return str(error)

print(json.dumps({
    **listed,
    "haze": corruptions.corrupt(image, "haze", 2, density=0.25)[0, 0].tolist(),
    "gauze": corruptions.corrupt(image, "gauze")[0, 0].tolist(),
    "clean": gauntlet.evaluate(model, dataset).figures["mIoU"],
    "lab-step": gauntlet.evaluate(model, dataset, "lab-step").figures["mIoU"],
    "lab-pgd": attacks.build("lab-pgd").describe()["loss"],
    "pgd": gauntlet.evaluate(model, dataset, {"attack": {"name": "pgd", "steps": 1}}).figures["mIoU"],
    "agreement": metric.compute([metric.decode(each.to_bytes()) for each in verdicts], WHOLE)[0].value,
    "lab-walk": attacks.build("lab-walk", steps=3).describe(),
    "for pixels": attacks.names("segmentation"),
    "lab-loss": attacked(loss="lab-loss").tolist(),
    "lab-creep": attacked(loss="lab-loss", rule="lab-creep").tolist(),
    "lab-lost": sentence(lambda: attacked(loss="lab-lost")),
    "needs-more": sentence(lambda: attacks.build("needs-more")),
    "built": [gauntlet.build_threat(name).name for name in ("fog", "pgd", "lab-pgd")],
    "eclipse": sentence(lambda: gauntlet.build_threat({"eclipse": {}})),
    "unknown": sentence(lambda: attacks.build("lab-pdg")),
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages as pip installs them."""
    folder = tmp_path_factory.mktemp("plugins")
    copies = [shutil.copytree(HERE / name, folder / "sources" / name) for name in ("scenelab", "sicklab")]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    target = folder / "site"
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), *map(str, copies)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


class Python:
    """Fresh processes that see the packages."""

    def __init__(self, fresh: FreshPython, installed: Path) -> None:
        self._fresh, self._installed = fresh, installed

    def run(self, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return self._fresh.run(program, *arguments, folder=folder, path=(self._installed,), COLUMNS="400")

    def gauntlet(self, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return self.run("from gauntlet.cli import main; main()", *arguments, folder=folder)


@pytest.fixture
def python(fresh_python: FreshPython, installed: Path) -> Python:
    return Python(fresh_python, installed)


@pytest.mark.slow
def test_every_kind_of_plugin_is_used_by_its_name_from_python(python: Python, tmp_path: Path) -> None:
    done = python.run(PROGRAM, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert {"pgd", "lab-step", "lab-pgd", "needs-more"} <= set(outcome["attacks"])
    assert {"fog", "haze", "veil", "seven"} <= set(outcome["corruptions"])
    assert outcome["lab"] == ["veil"]
    assert outcome["imported by listing"] == []
    assert outcome["haze"] == [int(40 * 0.5 + 255 * 0.5)] * 3
    assert outcome["gauze"] == [40 // 2 + 64] * 3
    assert outcome["clean"] == 1
    # Day is 22.5 grey levels above the threshold of the model, so 32 put out its light and 8 do not: then the IoU of
    # day is 0, and that of night, on 20 and 28 of 48 columns, 1/2.
    assert outcome["lab-step"] == pytest.approx(0.25)
    assert outcome["lab-pgd"] == "segpgd"
    assert (outcome["lab-walk"]["name"], outcome["lab-walk"]["steps"]) == ("lab-walk", 3)  # a bare class
    assert {"pgd", "lab-walk", "lab-step"} <= set(outcome["for pixels"])
    assert "needs-more" not in outcome["for pixels"]
    assert outcome["pgd"] == 1
    assert outcome["agreement"] == pytest.approx(2 / 3)
    # One step of 0.1 up the logit of day makes every channel brighter; the lab's rule goes a tenth of it.
    assert outcome["lab-loss"] == pytest.approx([0.1] * 3)
    assert outcome["lab-creep"] == pytest.approx([0.01] * 3)
    assert outcome["lab-lost"] == "unknown loss 'lab-lost'; did you mean 'lab-loss'?"
    assert outcome["needs-more"] == MISSING
    assert outcome["built"] == ["fog 3", "pgd linf 8/255 x20", "lab-pgd linf 8/255 x2"]
    assert outcome["eclipse"] in BROKEN
    assert outcome["unknown"] == "unknown attack 'lab-pdg'; did you mean 'lab-pgd' or 'lab-step'?"


def test_plugins_are_used_by_their_names_from_the_command_line(python: Python, tmp_path: Path) -> None:
    (tmp_path / "haze.yaml").write_text("corruption: {name: haze, severity: 5, density: 0.15}\n")
    threats = ["haze.yaml", "{localized: {corruption: {name: haze, density: 1.0}, region: {box: [0, 0, 32, 10]}}}"]
    threats += ["veil", "{attack: {name: lab-step, epsilon: 0.7, alpha: 0.7}}", "{attack: {name: pgd, steps: 1}}"]
    chosen = [word for threat in threats for word in ("-t", threat)]
    done = python.gauntlet(
        "run", "-m", "brightness:0.5", "-d", "scenes", *chosen, "--store", "s.db", "--json", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows = {row["threat"]: row["figures"]["mIoU"] for row in json.loads(done.stdout)}
    # Five times 0.15 makes night brighter than 0.5, so that everything is called day: IoUs of 0 and 1/2.
    assert rows["haze 5 density 0.15"] == pytest.approx(0.25)
    assert 0.25 < rows["haze 3 density 1 box 0 0 32 10"] < 1
    assert rows["veil 3"] == 1
    assert rows["lab-step linf 0.7 x1 alpha 0.7"] == 0
    assert rows["pgd linf 8/255 x1"] == 1


def test_a_broken_plugin_does_not_disturb_the_command_line(python: Python, tmp_path: Path) -> None:
    for what, there, broken in (
        ("attacks", "pgd", "needs-more"),
        ("batteries", "sea", "sevens"),
        ("corruptions", "haze", "seven"),
    ):
        done = python.gauntlet("list", what, "--json", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        names = [next(iter(row.values())) for row in json.loads(done.stdout)]
        assert there in names
        assert broken not in names
        assert "gauntlet-sicklab" in done.stderr
    done = python.gauntlet("run", "-m", "streets/enet", "-t", "needs-more", "--limit", "1", folder=tmp_path)
    assert done.returncode == 2
    assert MISSING in " ".join(done.stderr.split())


def test_the_doctor_names_every_broken_plugin(python: Python, tmp_path: Path) -> None:
    done = python.gauntlet("doctor", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["broken plug-ins"]) == BROKEN
    done = python.gauntlet("doctor", folder=tmp_path)
    assert f"Broken: {MISSING}" in done.stdout


def test_the_doctor_looks_at_every_group_of_plugins() -> None:
    from gauntlet import registry
    from gauntlet.cli import doctor

    doctor._broken_plugins()
    looked_at = {each.group for each in registry._registries}
    sources = [path.read_text() for path in SOURCE.rglob("*.py")]
    groups = {group for text in sources for group in re.findall(r'Registry\(\s*"[^"]+",\s*"(gauntlet\.\w+)"', text)}
    known = {"attacks", "metrics", "suites", "decode_rules", "losses", "step_rules"}
    assert {f"gauntlet.{name}" for name in known} <= groups
    assert groups <= looked_at
