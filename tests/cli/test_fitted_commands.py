"""`gauntlet universal` and `gauntlet patch`: fit, apply, show."""

from __future__ import annotations

import json
from pathlib import Path

import cv2

from program import Call

NETWORK = ("--model", "python:nets:street_network", "--num-classes", "11")


def test_universal_is_fitted_applied_and_used_by_run(call: Call) -> None:
    code, out, err = call("universal", "fit", *NETWORK, "--limit", "2", "--passes", "1", "--tile", "64x64", "-o", "u")
    assert code == 0, err
    assert "u.safetensors" in out
    assert cv2.imread("u.png").shape == (64, 64, 3)
    options = ("--limit", "2", "--store", "r.db")
    code, out, err = call("universal", "apply", "u.safetensors", *NETWORK, *options, "--draws", "1", "--gap", "--json")
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert [(row["images"], row["threat"]) for row in rows] == [
        ("held out", "clean"),
        ("held out", "fitted"),
        ("held out", "random signs, same linf"),
        ("fit", "clean"),
        ("fit", "fitted"),
    ]
    # The file may go elsewhere: what was stored is found again by the digest of its content.
    Path("u.safetensors").rename("moved.safetensors")
    threat = "{universal: {artifact: moved.safetensors}}"
    code, out, err = call("run", *NETWORK, *options, "--threat", threat, "--workers", "1", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["from_store"]
    assert found["key"] == rows[1]["keys"][0]
    code, _, err = call("universal", "apply", "moved.safetensors", *NETWORK, "--split", "train", "--limit", "1")
    assert code == 2
    assert "fitted on" in err


def test_a_patch_is_fitted_applied_and_shown(call: Call) -> None:
    few = ("--limit", "2", "--batch", "1", "--steps", "2", "--size", "12x24", "--rotation", "10")
    code, out, err = call("patch", "fit", *NETWORK, *few, "--place", "surface", "-o", "p")
    assert code == 0, err
    assert cv2.imread("p.png").shape == (12, 24, 3)
    code, out, err = call("patch", "apply", "p.safetensors", *NETWORK, "--limit", "1", "--store", "r.db", "--json")
    assert code == 0, err
    assert [row["threat"] for row in json.loads(out)["rows"]] == [
        "clean",
        "fitted",
        "random",
        "grey",
        "crop of an image",
    ]
    code, out, err = call("patch", "show", "p.safetensors", "--output", "shown.png", "--enlarge", "3", "--json")
    assert code == 0, err
    assert cv2.imread("shown.png").shape == (36, 72, 3)
    assert json.loads(out)["placement"]["place"] == "surface"
    code, _, err = call("patch", "show", "u.png")
    assert code == 2
    assert "there is no file" in err
