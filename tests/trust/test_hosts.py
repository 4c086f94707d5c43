"""Hosts as network namespaces: a Ray cluster with bad hosts among them (`scripts/soak.py hosts`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paths import ROOT
from subprocesses import environment

sys.path.append(str(ROOT / "scripts"))
import namespaces


def test_only_root_makes_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert namespaces.why_not() == "hosts are namespaces, which only root can make"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert namespaces.why_not() == "hosts are namespaces of Linux, and this is another system"


@pytest.mark.slow
def test_bad_hosts_of_a_cluster_are_refused_and_the_figures_stay(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra 'cluster' is not installed")
    if reason := namespaces.why_not():
        pytest.skip(reason)
    command = [sys.executable, str(ROOT / "scripts" / "soak.py"), "hosts", "--kinds", "images,weights,line"]
    ended = subprocess.run(
        [*command, "--folder", str(tmp_path)], env=environment(), text=True, stdout=subprocess.PIPE, check=False
    )
    outcome = json.loads(ended.stdout)
    assert (ended.returncode, outcome["faults"]) == (0, [])
    assert sorted(outcome["refused"]) == ["images", "line", "weights"]
    assert set(outcome["named"]) <= {"one", "two"}
