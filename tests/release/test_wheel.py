"""What is released: the wheel runs outside the repository with its weights, and has nothing of the tests in it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from gauntlet import __version__
from gauntlet.models.sources import shipped
from paths import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a wheel, which is built from the source distribution beside it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def binaries(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what it depends on is lent from this one, after the installation."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if sys.platform == "win32" else "bin")
    wheel = next(dist.glob("*.whl"))
    subprocess.run([scripts / "python", "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A path in a .pth file is not itself searched for .pth files, so the editable installation stays out.
    (Path(packages) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return scripts


def test_wheel_has_the_weights_and_no_tests(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {"gauntlet", f"vision_gauntlet-{__version__}.dist-info"}
    weights = {name for name in names if name.endswith(".safetensors")}
    assert weights == {f"gauntlet/models/weights/{model}.safetensors" for model in shipped.names("streets")}
    information = f"vision_gauntlet-{__version__}.dist-info"
    assert f"{information}/licenses/src/gauntlet/models/weights/LICENCES.md" in names
    assert "gauntlet/py.typed" in names
    assert {f"gauntlet/play/assets/play.{kind}" for kind in ("html", "css", "js")} <= set(names)


def test_source_distribution_has_the_tests(dist: Path) -> None:
    packed = next(dist.glob("*.tar.gz"))
    with tarfile.open(packed) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {"tests/release/test_wheel.py", "configs/enet.yaml", "Makefile", "constraints-min.txt"} <= names
    assert packed.stat().st_size < 60e6
    assert not [name for name in names if "camvid" in name and name.endswith(".safetensors")]


def test_installed_wheel_runs_the_demo(binaries: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> str:
        ended = subprocess.run([binaries / arguments[0], *arguments[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    where = call("python", "-c", "import gauntlet; print(gauntlet.__file__)")
    assert Path(where.strip()).is_relative_to(binaries.parent)
    assert __version__ in call("gauntlet", "--version")
    printed = call("gauntlet", "demo", "--images", "1", "--model", "streets/enet")
    assert "1 images of streets/val" in printed
    assert (tmp_path / "gauntlet-demo" / "report.html").is_file()


def test_citation_names_the_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
