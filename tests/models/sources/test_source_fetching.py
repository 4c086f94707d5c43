"""Files from the web, from a server on this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gauntlet.errors import GauntletError
from gauntlet.models.sources.fetching import fetched

CONTENT = b"weights" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()[:8]


def test_a_file_is_fetched_once_and_with_a_bar(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"net_20200101-{DIGEST}.pth"
    (tmp_path / "site" / name).write_bytes(CONTENT)
    path = fetched(f"{server}/{name}")
    assert path == tmp_path / "hub" / "checkpoints" / name
    assert path.read_bytes() == CONTENT
    assert "100" in capsys.readouterr().err
    (tmp_path / "site" / name).unlink()
    assert fetched(f"{server}/{name}") == path


def test_a_file_with_another_digest_is_refused(server: str, tmp_path: Path) -> None:
    name = "net_20200101-00000000.pth"
    (tmp_path / "site" / name).write_bytes(CONTENT)
    with pytest.raises(GauntletError, match=r"its name promises, .* begin with 00000000; try again, or"):
        fetched(f"{server}/{name}")
    assert not list((tmp_path / "hub" / "checkpoints").iterdir())


def test_a_file_without_a_digest_in_its_name_is_taken(server: str, tmp_path: Path) -> None:
    (tmp_path / "site" / "ddq_detr_swinl_30e.pth").write_bytes(CONTENT)
    assert fetched(f"{server}/ddq_detr_swinl_30e.pth").read_bytes() == CONTENT


def test_what_cannot_be_fetched_is_said_in_one_sentence(server: str) -> None:
    with pytest.raises(GauntletError, match=r"nothing\.pth could not be fetched \(HTTP Error 404.*\); fetch it where"):
        fetched(f"{server}/nothing.pth")
    with pytest.raises(GauntletError, match=r"could not be fetched \(.*refused.*\)"):
        fetched("http://127.0.0.1:9/net.pth")
