"""A model is what it does: its code, attributes and packages are part of its identity (issue 38, 2)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from fresh_python import FreshPython
from gauntlet.models import load_model, resolve_model, wrap_model
from gauntlet.models.code_identity import OWN_CODE, code_of, code_of_target
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.config_code import code_of_config
from subprocesses import environment

NETS = '''"""Networks of a project."""
import torch
from torch import nn
from project import helper

class Net(nn.Module):
    def __init__(self, scale: float = 1.0, names=("dark", "light", "red")):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)
        self.scale = scale
        self.names = set(names)
        self.place = __file__
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(3).reshape(3, 3, 1, 1))
            self.layer.bias.zero_()

    def forward(self, images):
        return helper.finish(self.layer(images)) * self.scale

def build():
    return Net()
'''
HELPER = "def finish(logits):\n    return logits\n"
IDENTITY = """
import json
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models import load_model, resolve_model
source = resolve_model("python:project.nets:build", num_classes=3)
planned = source.identity
loaded = load_model("python:project.nets:build", num_classes=3).identity
assert planned == loaded, (planned, loaded)
model = {"address": "python:project.nets:build", "options": {"num_classes": 11}}
(job,) = plan_jobs(parse_plan({"models": [model], "datasets": ["streets"], "threats": ["clean"]}))
print(json.dumps([planned.digest, planned.code, job.job.key]))
"""


def write_project(folder: Path, **texts: str) -> Path:
    """A package of two modules, as a user has them; one imports the other."""
    package = folder / "project"
    package.mkdir(parents=True, exist_ok=True)
    for name, text in {"__init__": "", "nets": NETS, "helper": HELPER, **texts}.items():
        (package / f"{name}.py").write_text(text)
    return folder


class Told(NamedTuple):
    """Digest and code of a model, and the key of an evaluation of it."""

    digest: str
    code: str
    key: str


def identity_of(folder: Path, python: FreshPython) -> Told:
    """Which model that of a project is, in a process of its own."""
    done = python.run(IDENTITY, folder=folder)
    assert done.returncode == 0, done.stderr
    digest, code, key = json.loads(done.stdout)
    return Told(digest, code, key)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project-one")


@pytest.mark.parametrize(
    "changed",
    [
        {"nets": NETS.replace("return helper", "return -helper")},
        {"helper": HELPER.replace("return logits", "return logits.flip(1)")},
        {"nets": NETS.replace("scale: float = 1.0", "scale: float = 3.0")},
    ],
    ids=["forward negated", "helper module edited", "default of an attribute edited"],
)
def test_an_edited_model_of_one_s_own_has_another_code_with_the_same_weights(
    changed: dict[str, str], project: Path, fresh_python: FreshPython
) -> None:
    before = identity_of(project, fresh_python)
    write_project(project, **changed)
    after = identity_of(project, fresh_python)
    assert before.digest == after.digest  # what version 0.2.0 knew a model by
    assert before.code != after.code
    assert before.key != after.key


def test_a_module_that_a_helper_imports_counts_and_one_that_nothing_imports_does_not(
    project: Path, fresh_python: FreshPython
) -> None:
    chain = {"helper": "from . import deeper\n\ndef finish(logits):\n    return deeper.last(logits)\n"}
    write_project(project, **chain, deeper="def last(logits):\n    return logits\n", unrelated="x = 1\n")
    before = identity_of(project, fresh_python)
    write_project(project, **chain, deeper="def last(logits):\n    return logits\n", unrelated="x = 2\n")
    assert identity_of(project, fresh_python) == before
    write_project(project, **chain, deeper="def last(logits):\n    return logits * 2\n")
    assert identity_of(project, fresh_python) != before


def test_the_code_is_the_same_in_every_process_folder_and_order_of_sets(tmp_path: Path) -> None:
    def run(folder: Path, seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", IDENTITY],
            cwd=write_project(folder),
            env=environment(PYTHONHASHSEED=seed),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert run(tmp_path / "here", "1") == run(tmp_path / "somewhere" / "else", "2")


class Scaled(nn.Module):
    """A network with an attribute that no file of weights has."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)
        nn.init.constant_(self.layer.weight, 0.5)
        nn.init.zeros_(self.layer.bias)  # type: ignore[arg-type]
        self.scale = 1.0
        self.plain: Any = None
        self.register_buffer("shift", torch.zeros(3, 1, 1), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(images) * self.scale + self.shift  # type: ignore[no-any-return]


def wrapped(network: nn.Module) -> ModelIdentity:
    return wrap_model(network, num_classes=3).identity


def changed(**values: Any) -> nn.Module:
    network = Scaled()
    for name, value in values.items():
        setattr(network, name, value)
    return network


def negated(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    return -output


def hooked() -> nn.Module:
    network = Scaled()
    network.register_forward_hook(negated)
    return network


def replaced() -> nn.Module:
    network = Scaled()
    network.forward = lambda images: -images  # type: ignore[method-assign]
    return network


@pytest.mark.parametrize(
    "network",
    [
        changed(scale=-1.0),
        changed(plain={"a": [1, (2.0, "x")]}),
        changed(plain=torch.arange(4)),
        changed(plain=torch.arange(4).numpy()),
        changed(shift=torch.ones(3, 1, 1)),
        changed(plain=Scaled),
        changed(plain=[Scaled()]),
        changed(plain=negated),
        hooked(),
        replaced(),
    ],
    ids=["number", "nested", "tensor", "array", "buffer", "class", "network in a list", "function", "hook", "forward"],
)
def test_a_changed_attribute_of_a_wrapped_network_gives_another_code(network: nn.Module) -> None:
    plain = wrapped(Scaled())
    assert wrapped(network).digest == plain.digest
    assert wrapped(network).code != plain.code
    assert wrapped(network).code == wrapped(network).code


def test_weights_of_a_network_that_is_held_in_a_list_count() -> None:
    held = [Scaled(), Scaled()]
    nn.init.constant_(held[1].layer.weight, 0.25)
    assert wrapped(changed(plain=[held[0]])).code != wrapped(changed(plain=[held[1]])).code


def test_a_callable_that_gives_labels_is_known_by_its_code_and_by_what_it_holds() -> None:
    def asking(threshold: float) -> Any:
        return lambda images: (images.mean(dim=1) > threshold).long()

    codes = {wrap_model(asking(each), num_classes=2, gives="labels").identity.code for each in (0.25, 0.5, 0.5)}
    assert len(codes) == 2


def test_a_class_of_the_main_module_is_known_by_its_text_and_by_the_globals_that_it_reads(
    tmp_path: Path, fresh_python: FreshPython
) -> None:
    program = """
from torch import nn
import sys
from gauntlet.models import wrap_model
SCALE = 1.0
class Net(nn.Module):
    def forward(self, images):
        return images * SCALE
print(wrap_model(Net(), num_classes=3).identity.code)
"""

    def code(text: str) -> str:
        done = fresh_python.run(text, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert code(program) == code(program + "print()\n".replace("print()", "unrelated = 2"))
    assert len({code(program), code(program.replace("* SCALE", "+ SCALE")), code(program.replace("1.0", "2.0"))}) == 3


def test_models_of_our_own_have_one_code_and_are_not_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = ["streets/enet", "tiled:size=64:streets/enet", "crf:streets/enet"]
    assert {load_model(address).identity.code for address in addresses} == {OWN_CODE}
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", None)
    assert {resolve_model(address).identity.code for address in addresses} == {OWN_CODE}


def test_the_code_of_a_target_is_found_without_running_it(project: Path) -> None:
    (project / "project" / "__init__.py").write_text("raise RuntimeError('it ran')\n")
    before = code_of_target("project.nets:build", [str(project)])
    (project / "project" / "helper.py").write_text(HELPER + "\n")
    assert before != code_of_target("project.nets:build", [str(project)])
    assert "project" not in sys.modules


def test_a_configuration_counts_with_the_files_that_it_inherits_from(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "net.py").write_text("depth = 50\n")
    (tmp_path / "config.py").write_text("_base_ = ['base/net.py']\ncustom_imports = dict(imports=['mine'])\n")
    (tmp_path / "mine.py").write_text("x = 1\n")
    codes = [code_of_config(tmp_path / "config.py")]
    (tmp_path / "base" / "net.py").write_text("depth = 101\n")
    codes.append(code_of_config(tmp_path / "config.py"))
    (tmp_path / "mine.py").write_text("x = 200\n")
    codes.append(code_of_config(tmp_path / "config.py"))
    assert len(set(codes)) == 3


@pytest.mark.parametrize("make", [torch.jit.script, torch.fx.symbolic_trace, lambda network: network])
def test_scripted_and_traced_networks_have_a_stable_code(make: Any) -> None:
    def network(*layers: nn.Module) -> nn.Module:
        made: nn.Module = make(nn.Sequential(*layers))
        return made

    assert code_of(network(nn.ReLU())) == code_of(network(nn.ReLU()))
    assert code_of(network(nn.ReLU())) != code_of(network(nn.Sigmoid()))
