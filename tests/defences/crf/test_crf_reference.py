"""Every reference value of the CRF (docs/specs/defences.md, section 5), in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from crf_scenes import Saying, beliefs, large_scene, parameters_of, reference, small_scene
from safetensors.torch import save_file

from gauntlet.defences.crf import Crf
from gauntlet.defences.crf.cells import CellKernel
from gauntlet.defences.crf.model import bilateral_features

CASES = [name for name in reference() if name.count("/") == 2 and not name.startswith("learned")]
SOLVED = [(name, iterations) for name in CASES for iterations in reference()[name]]


def settings_of(name: str) -> dict[str, Any]:
    parameters, normalisation, self_term = name.split("/")
    return parameters_of(parameters) | {"normalisation": normalisation, "self_term": self_term == "self"}


def assert_beliefs(q: torch.Tensor, expected: dict[str, Any]) -> None:
    """Compares beliefs (4, 24, 32) with every figure of a reference entry."""
    flat = q.reshape(4, -1)
    _, logits, _ = small_scene()
    labels, pixel = q.argmax(dim=0).flatten(), torch.arange(flat.shape[1])
    top = flat.topk(2, dim=0).values
    found = {
        "sum_per_class": flat.sum(dim=1).tolist(),
        "sum_of_squares": flat.square().sum().item(),
        "q_row12_col16": q[:, 12, 16].tolist(),
        "q_row3_col29": q[:, 3, 29].tolist(),
        "weighted_sum": (flat * torch.cos(0.1 * pixel.double()) * torch.arange(1, 5)[:, None]).sum().item(),
        "argmax_counts": labels.bincount(minlength=4).tolist(),
        "argmax_checksum": int((labels * (pixel % 97 + 1)).sum()),
        "changed": int((labels != logits[0].argmax(dim=0).flatten()).sum()),
        "mean_confidence": top[0].mean().item(),
        "mean_entropy_nats": -torch.special.xlogy(flat, flat).sum(dim=0).mean().item(),
        "smallest_margin": (top[0] - top[1]).min().item(),
    }
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key


@pytest.mark.parametrize(("name", "iterations"), SOLVED)
def test_beliefs(name: str, iterations: str) -> None:
    image, logits, _ = small_scene()
    q = beliefs(image, logits, iterations=int(iterations), **settings_of(name))
    assert_beliefs(q, reference()[name][iterations])


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """The learned parameters of the reference values, as a file."""
    k = torch.arange(4, dtype=torch.float64)
    compatibility = (0.25 * (1 + (k[:, None] - k).abs()) + 0.05 * k[:, None]) * (1 - torch.eye(4, dtype=torch.float64))
    tensors = {"compatibility": compatibility, "w_bilateral": 0.5 + 0.1 * k, "w_spatial": 0.4 - 0.05 * k}
    save_file(tensors, tmp_path / "learned.safetensors")
    return tmp_path / "learned.safetensors"


@pytest.mark.parametrize("iterations", ["1", "5", "10"])
def test_beliefs_with_learned_parameters(learned: Path, iterations: str) -> None:
    image, logits, _ = small_scene()
    bandwidths = {name: value for name, value in parameters_of("small").items() if name.startswith("theta")}
    q = beliefs(image, logits, iterations=int(iterations), parameters=str(learned), **bandwidths)
    assert_beliefs(q, reference()["learned_compatibility/after/self"][iterations])


@pytest.mark.parametrize("name", list(reference()["gradients"]))
def test_gradients(name: str) -> None:
    expected = reference()["gradients"][name]
    image, logits, labels = small_scene()
    image.requires_grad_()
    logits.requires_grad_()
    parameters, iterations = name.split("/after/self/")
    refined = Crf(Saying(logits), iterations=int(iterations), **parameters_of(parameters))(image)
    loss = torch.nn.functional.cross_entropy(refined, labels[None], reduction="sum")
    to_logits, to_image = torch.autograd.grad(loss, (logits, image))
    unary = torch.nn.functional.cross_entropy(logits, labels[None], reduction="sum")
    (to_unary,) = torch.autograd.grad(unary, logits)
    found = {
        "loss": loss.item(),
        "grad_logits_l2": to_logits.norm().item(),
        "grad_logits_sum_abs": to_logits.abs().sum().item(),
        "grad_logits_row12_col16": to_logits[0, :, 12, 16].tolist(),
        "grad_image_l2": to_image.norm().item(),
        "grad_image_sum_abs": to_image.abs().sum().item(),
        "grad_image_row12_col16": to_image[0, :, 12, 16].tolist(),
        "unary_loss": unary.item(),
        "unary_grad_logits_l2": to_unary.norm().item(),
    }
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key


@pytest.mark.slow
@pytest.mark.parametrize(("name", "counts"), [("crfrnn", (128, 358)), ("deeplab", (176, 462)), ("small", (435, 1503))])
def test_cells_are_as_near_to_the_exact_kernel_as_measured(name: str, counts: tuple[int, int]) -> None:
    """At 72 x 96, ten iterations: at most the reference's error for both sides, nearer than pydensecrf's lattice."""
    image, logits = large_scene()
    settings = parameters_of("deeplab_v2_resnet" if name == "deeplab" else name)
    exact = beliefs(image, logits, **settings, method="exact")
    measured = reference()["approximations at 72x96, after, self, 10 iterations"][name]["approximations"]
    lattice = measured["permutohedral (pydensecrf2)"]
    features = bilateral_features(image[0], settings["theta_alpha"], settings["theta_beta"])
    for side, count in zip((1.0, 0.5), counts, strict=True):
        cells = beliefs(image, logits, **settings, method="cells", side=side)
        error = (cells - exact).abs().mean().item()
        assert len(CellKernel(features, side).centroids) == count
        assert error <= 1.1 * measured[f"feature cells {side} ({count} cells)"]["mean_abs_dq"]
        assert error <= lattice["mean_abs_dq"]
        assert 100 * (cells.argmax(0) != exact.argmax(0)).double().mean() <= lattice["argmax_differs_percent"]


LATTICE = reference()["pydensecrf2 1.1 (permutohedral, float32) minus exact"]


@pytest.mark.slow
@pytest.mark.parametrize("case", list(LATTICE))
def test_cells_are_as_near_to_the_exact_kernel_as_the_lattice(case: str) -> None:
    """At 24 x 32, every published case: at most 1.5 times the lattice's mean error, no larger single one."""
    name, normalisation, iterations = case.split("/")
    image, logits, _ = small_scene()
    settings = parameters_of(name) | {"normalisation": normalisation, "iterations": iterations}
    exact = beliefs(image, logits, **settings, method="exact")
    cells = beliefs(image, logits, **settings, method="cells")
    assert (cells - exact).abs().mean() <= 1.5 * LATTICE[case]["mean_abs_dq"], (cells - exact).abs().mean()
    assert (cells - exact).abs().max() <= LATTICE[case]["max_abs_dq"]
    assert int((cells.argmax(0) != exact.argmax(0)).sum()) <= LATTICE[case]["argmax_differs"] + 3  # of 768 pixels
