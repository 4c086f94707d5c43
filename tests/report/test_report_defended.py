"""What a report says about defended models, transferred attacks and certificates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from synthetic_store import DATASET, METRIC

import gauntlet
from gauntlet.analysis import transfer, transform_matrix
from gauntlet.defences import Crf, EnsembleModel, MultiscaleModel, NoisyModel, SmoothedModel, TransformedModel
from gauntlet.metrics import Figure, Views
from gauntlet.metrics.trials import trial_figures
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.defended_names import address_of, defences_in
from gauntlet.models.tiling import TiledModel
from gauntlet.report.assembly import build_report
from gauntlet.report.charts import HeatChart, LineChart, Panel, PointChart
from gauntlet.report.document import Bullets, Document, Findings, of_type
from gauntlet.report.pages.entries import store_entries
from gauntlet.report.pages.leaderboard_site import defended_parts, write_site
from gauntlet.report.scope import scopes
from gauntlet.report.sections import defended as wrapped
from gauntlet.report.sections.confidence import certificates
from gauntlet.report.sections.defended import averaging_stronger, never_attacked_adaptively, targeted_stronger
from gauntlet.report.tables import Cell, Interval, Table, number_of
from gauntlet.results import Job, Store
from tiny import TinyDataset, tiny_network

ATTACK: dict[str, Any] = {"name": "pgd", "epsilon": "8/255", "steps": 2}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


def model(name: str = "tiny") -> SegmentationModel:
    return wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name=name)


def sentences(document: Document) -> list[str]:
    return [finding.text for block in of_type(document, Findings) for finding in block.items]


def summary(document: Document) -> str:
    return " ".join(item for block in of_type(document, Bullets) for item in block.items)


def enter(
    store: Store,
    model: ModelIdentity,
    description: dict[str, Any],
    figures: Sequence[Figure] | float,
    *,
    threat: str = "",
    version: int = 1,
    seed: int = 0,
) -> None:
    """Puts figures into a store, or a mIoU alone, later than all that is there."""
    kind = next(iter(description))
    job = Job("segmentation", model.name, model.digest, DATASET, threat or kind, kind, description, version, seed)
    provenance = {"started": f"2026-01-01T00:00:{store.count():02d}+00:00"}
    started = store.begin(job, images=40, batch_size=4, metric=METRIC, provenance=provenance)
    store.finish(started, [Figure("mIoU", figures)] if isinstance(figures, float) else figures)


def test_the_defences_in_a_name() -> None:
    assert defences_in("streets/enet") == []
    assert defences_in("my noise model") == []
    assert defences_in("streets/enet transform kind=grey tiled 12x12 every 8x8 mirrored probabilities") == ["transform"]
    assert defences_in("streets/enet tiled 12x12 every 8x8 crf side=1") == ["crf"]
    assert defences_in("streets/enet noise sigma=0.25,trials=9") == ["noise"]
    mixed = "[a crf side=1]+[[b]+[c] ensemble gamma=0.5,of=logits] ensemble gamma=0.1,of=logits"
    assert defences_in(mixed) == ["crf", "ensemble", "ensemble"]
    assert address_of(mixed) == "ensemble:gamma=0.1,of=logits:[crf:side=1:a]+[ensemble:gamma=0.5,of=logits:[b]+[c]]"


def test_a_random_defence_needs_an_attack_that_averages() -> None:
    store, data = Store(), TinyDataset(2)
    defended = TransformedModel(model(), kind="blur", trials=2)
    for threat in ("clean", {"attack": ATTACK}):
        gauntlet.evaluate(defended, data, threat, store=store, prepare="off")
    before = build_report(store)
    assert any("never attacked with gradients averaged over draws" in text for text in sentences(before))
    assert "Never attacked adaptively, so not to be called robust: transform:kind=blur" in summary(before)
    gauntlet.evaluate(defended, data, {"attack": {**ATTACK, "samples": 3}}, store=store, prepare="off")
    after = build_report(store)
    assert not any("averaged over draws" in text for text in sentences(after))
    assert "Never attacked adaptively" not in summary(after)


def test_a_random_defence_in_tiles_needs_an_attack_that_averages_too() -> None:
    store = Store()
    defended = TiledModel(TransformedModel(model(), kind="blur", sigma=(0, 1), trials=2), size=(12, 12))
    gauntlet.evaluate(defended, TinyDataset(1), {"attack": ATTACK}, store=store, prepare="off")
    assert any("never attacked with gradients averaged over draws" in text for text in sentences(build_report(store)))


def test_a_crf_with_a_part_of_its_gradient_needs_an_attack_along_all_of_it() -> None:
    store, data, inner = Store(), TinyDataset(1), model()
    partial, whole = (Crf(inner, iterations=1, image_gradient=flag) for flag in (False, True))
    gauntlet.evaluate(partial, data, {"attack": ATTACK}, store=store, prepare="off")
    assert any("(image_gradient=false), and it was never shown" in text for text in sentences(build_report(store)))
    assert "Never attacked adaptively, so not to be called robust: crf:" in summary(build_report(store))
    around = MultiscaleModel(partial, scales=(0.5, 1))  # its "inner" still has the partial gradient
    for source, model_there, told in (("inner", around, True), (whole, partial, False), (inner, partial, False)):
        other = Store()
        transferred = {"transfer": {"source_model": source, "attack": ATTACK}}
        gauntlet.evaluate(model_there, data, transferred, store=other, prepare="off")
        findings = sentences(build_report(other))
        assert any("image_gradient=false" in text for text in findings) == told
        assert not any("never attacked itself" in text for text in findings)


def test_a_defence_needs_an_attack_of_its_own() -> None:
    store, data = Store(), TinyDataset(2)
    inner = model()
    defended = MultiscaleModel(inner, scales=(0.5, 1))
    for threat in ("clean", {"transfer": {"source_model": "inner", "attack": ATTACK}}):
        gauntlet.evaluate(defended, data, threat, store=store, prepare="off")
    idle = {"attack": {**ATTACK, "epsilon": 0}}
    for weak in ({"attack": {"name": "square", "epsilon": "8/255", "queries": 2}}, idle):
        gauntlet.evaluate(defended, data, weak, store=store, prepare="off")
    assert any("was never attacked itself" in text for text in sentences(build_report(store)))
    gauntlet.evaluate(defended, data, {"attack": ATTACK}, store=store, prepare="off")
    assert not any("was never attacked itself" in text for text in sentences(build_report(store)))


def test_votes_need_an_attack_on_their_noise_that_averages() -> None:
    store, data, inner = Store(), TinyDataset(1), model()
    smoothed = SmoothedModel(inner, sigma=0.1, n0=1, n=2)

    def told_after(source: SegmentationModel, **attack: Any) -> bool:
        threat = {"transfer": {"source_model": source, "attack": {**ATTACK, **attack}}}
        gauntlet.evaluate(smoothed, data, threat, store=store, prepare="off")
        (scope,) = scopes(store.frame())
        told = [finding.text for finding in never_attacked_adaptively(scope)]
        assert not any("along its gradient" in text for text in told)  # it has none
        return any("never shown an attack made on 'noise:'" in text for text in told)

    noise = NoisyModel(inner, sigma=0.1, trials=3)
    assert told_after(inner, samples=3)  # knows of no noise
    assert told_after(NoisyModel(inner, sigma=0.2), samples=3)  # of another
    assert told_after(NoisyModel(model("other"), sigma=0.1), samples=3)  # of another model
    assert told_after(noise)  # meets one draw at a time
    assert told_after(noise, samples=3, epsilon=0)
    assert not told_after(noise, samples=3)


def test_a_fixed_transformation_does_not_draw() -> None:
    store, data = Store(), TinyDataset(2)
    fixed = TransformedModel(model(), kind="jpeg", fixed=75)
    for threat in ("clean", {"attack": ATTACK}):
        gauntlet.evaluate(fixed, data, threat, store=store, prepare="off")
    assert not any("It draws at random" in text or "never attacked" in text for text in sentences(build_report(store)))


class Saturated(torch.nn.Module):
    """The same decisions with logits so large that the loss of every right pixel has no gradient left."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(images)
        return logits.double().mul(1e6).float()


def test_images_of_another_model_that_are_stronger_show_a_hidden_gradient() -> None:
    store, data, open_one = Store(), TinyDataset(4), model("open")
    hidden = wrap_model(Saturated(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="hidden")
    attack = {**ATTACK, "epsilon": "32/255", "steps": 10}
    crossed = {"transfer": {"source_model": open_one, "attack": attack}}
    for threat in ("clean", {"attack": attack}, crossed):
        gauntlet.evaluate(hidden, data, threat, store=store, prepare="off")
    found = sentences(build_report(store))
    assert any(
        "made on open is stronger than made on the model itself: its gradient is hidden" in text for text in found
    )


def made_on_itself(target: SegmentationModel, attack: dict[str, Any], stored_as: str) -> dict[str, Any]:
    """A white-box attack, as it is or as a transfer of the model to itself (the studies of Arnab et al.)."""
    plain = {"attack": attack}
    return plain if stored_as == "attack" else {"transfer": {"source_model": target, **plain}}


@pytest.mark.parametrize("stored_as", ["attack", "transfer"])
def test_targets_that_are_stronger_show_a_saturated_loss(stored_as: str) -> None:
    store, data, inside = Store(), TinyDataset(2), model("inside")
    untargeted, targeted = ATTACK, {**ATTACK, "name": "ifgsm-ll"}
    defended = MultiscaleModel(inside, scales=(0.5, 1))
    for attack in (untargeted, targeted):
        gauntlet.evaluate(defended, data, made_on_itself(defended, attack, stored_as), store=store, prepare="off")
    gauntlet.evaluate(inside, data, made_on_itself(inside, untargeted, stored_as), store=store, prepare="off")

    def found(values: dict[tuple[str, str], float]) -> list[str]:
        """Findings where the figures are these, by the start of the model's and of the threat's name."""
        frame = store.frame()
        for (name, threat), value in values.items():
            chosen = frame["threat"].str.startswith(threat) & frame["model"].str.contains(name)
            frame.loc[chosen & frame["metric"].eq("mIoU"), "value"] = value
        (scope,) = scopes(frame)
        return [finding.text for finding in targeted_stronger(scope)]

    (text,) = found({("", "pgd"): 0.5, ("", "ifgsm-ll"): 0.2, ("inside$", "pgd"): 0.1})
    assert "what the defence seems to gain is a saturated loss" in text
    assert found({("", "pgd"): 0.5, ("", "ifgsm-ll"): 0.2}) == []  # the model inside keeps as much: nothing was gained
    assert found({("", "pgd"): 0.5, ("", "ifgsm-ll"): 0.6, ("inside$", "pgd"): 0.1}) == []


@pytest.mark.parametrize("stored_as", ["attack", "transfer"])
def test_averaging_that_is_stronger_is_told(stored_as: str) -> None:
    store, data = Store(), TinyDataset(2)
    blurred = TransformedModel(model(), kind="blur", trials=1)
    for samples in (1, 3):
        threat = made_on_itself(blurred, {**ATTACK, "samples": samples}, stored_as)
        gauntlet.evaluate(blurred, data, threat, store=store, prepare="off")
    frame = store.frame()
    averaged = frame["description"].str.contains('"samples": 3')
    frame.loc[frame["metric"].eq("mIoU"), "value"] = averaged.map({True: 0.2, False: 0.5})
    (scope,) = scopes(frame)
    assert ["without averaging" in finding.text for finding in averaging_stronger(scope)] == [True]


def test_certificates_have_a_section() -> None:
    store, data = Store(), TinyDataset(2)
    gauntlet.evaluate(model(), data, "clean", store=store)
    gauntlet.evaluate(model(), data, {"certify": {"sigma": 0.05, "n": 60, "tau": [0.6, 0.75]}}, store=store)
    document = build_report(store)
    (table,) = [each for each in of_type(document, Table) if each.id.startswith("certificates-")]
    assert [row[1] for row in table.rows] == ["certify sigma 0.05 n 60, tau 0.6", "certify sigma 0.05 n 60, tau 0.75"]
    assert table.rows[1][4] == pytest.approx(0.05 * 0.6744897501960817)
    assert table.rows[0][2:4] == ["0.001", "holm"]
    assert "alpha holds per image, all of its pixels together" in table.caption
    assert "Over several images the chances of a wrong certificate add up" in table.caption


def certified_lines(store: Store) -> dict[str, tuple[list[Any], list[Any]]]:
    """Radii and accuracies of every line of the chart, by name."""
    (scope,) = scopes(store.frame())
    section = certificates.section(scope)
    assert section is not None
    (panel,) = of_type(section, Panel)
    assert "One line per model, sigma and number of noisy copies" in panel.caption
    (chart,) = panel.charts.values()
    assert isinstance(chart, LineChart)
    assert "never rises with the radius" in chart.alt
    assert len({series.style for series in chart.series}) == len(chart.series)
    return {series.name: (list(series.x), list(series.y)) for series in chart.series}


def certify(
    store: Store, name: str, sigma: float, n: int, accuracies: dict[float, tuple[float, float]], version: int = 1
) -> None:
    """Certificates with a radius and an accuracy by tau."""
    figures = [
        Figure(metric, value, view=f"tau {tau:g}")
        for tau, (radius, accuracy) in accuracies.items()
        for metric, value in (
            *(("radius", radius), ("certified_accuracy", accuracy), ("certified_mIoU", accuracy / 2)),
            ("abstention", 1 - accuracy),
        )
    ]
    description = {"certify": {"sigma": sigma, "n0": 10, "n": n}}
    threat = f"certify sigma {sigma:g} n {n}"
    enter(store, ModelIdentity(name, name), description, figures, threat=threat, version=version)


def test_certified_accuracy_has_a_line_per_model_and_sigma() -> None:
    store = Store()
    certify(store, "a", 0.25, 100, {0.95: (0.41, 0.465), 0.75: (0.17, 0.754)})  # not in the order of the radius
    certify(store, "a", 0.5, 100, {0.75: (0.34, 0.224), 0.95: (0.82, 0.112)})
    certify(store, "b", 0.25, 100, {0.75: (0.17, 0.666), 0.95: (0.41, 0.6)})
    certify(store, "a", 0.25, 500, {0.75: (0.17, 0.76), 0.95: (0.41, 0.5)})
    assert certified_lines(store) == {
        "a, sigma 0.25 n 100": ([0.17, 0.41], [0.754, 0.465]),
        "a, sigma 0.5 n 100": ([0.34, 0.82], [0.224, 0.112]),
        "a, sigma 0.25 n 500": ([0.17, 0.41], [0.76, 0.5]),
        "b, sigma 0.25 n 100": ([0.17, 0.41], [0.666, 0.6]),
    }


def test_a_line_of_certificates_is_of_one_evaluation() -> None:
    store = Store()
    certify(store, "a", 0.25, 100, {0.75: (0.17, 0.3), 0.95: (0.41, 0.2)})
    certify(store, "a", 0.25, 100, {0.75: (0.17, 0.1)}, version=2)
    assert certified_lines(store) == {"a, sigma 0.25 n 100": ([0.17], [0.1])}


def test_certificates_of_votes_never_rise_along_a_line() -> None:
    store, data, taus = Store(), TinyDataset(2), [0.9, 0.6, 0.75]
    for sigma in (0.05, 0.4):
        gauntlet.evaluate(model(), data, {"certify": {"sigma": sigma, "n": 100, "tau": taus}}, store=store)
    lines = certified_lines(store)
    assert list(lines) == ["tiny, sigma 0.05 n 100", "tiny, sigma 0.4 n 100"]
    for radii, accuracies in lines.values():
        assert len(radii) == 3
        assert radii == sorted(radii)
        assert accuracies == sorted(accuracies, reverse=True)


def test_certificates_without_a_correction_say_so() -> None:
    store = Store()
    options = {"sigma": 0.05, "n": 60, "tau": [0.6], "alpha": 0.01, "correction": "none"}
    gauntlet.evaluate(model(), TinyDataset(1), {"certify": options}, store=store)
    (table,) = [each for each in of_type(build_report(store), Table) if each.id.startswith("certificates-")]
    assert table.rows[0][2:4] == ["0.01", "none"]
    assert "alpha holds per pixel, not per image" in table.caption


def test_the_site_has_a_page_of_defences_where_there_is_something_to_say(tmp_path: Path) -> None:
    store, data = Store(), TinyDataset(2)
    gauntlet.evaluate(model(), data, "clean", store=store)
    assert defended_parts(store.frame()) == []
    gauntlet.evaluate(model(), data, {"certify": {"sigma": 0.05, "n": 60}}, store=store)
    crossed = {"transfer": {"source_model": model("<other>"), "attack": ATTACK}}
    gauntlet.evaluate(model(), data, crossed, store=store, prepare="off")
    frame = store.frame()
    (part,) = defended_parts(frame)
    assert [section.title for section in part.sections] == ["Transfer", "Certificates"]
    site = write_site(store_entries(frame), tmp_path / "site", defended=[part])
    page = (site / "defences.html").read_text()
    assert page.count("data-panel=") == 2
    assert "<other>" not in page
    assert 'href="defences.html"' in (site / "index.html").read_text()
    assert 'href="../defences.html"' in next((site / "models").iterdir()).read_text()
    write_site(store_entries(frame), site)
    assert not (site / "defences.html").exists()
    assert "defences.html" not in (site / "index.html").read_text()


def charts_of(document: Document, start: str) -> dict[str, Any]:
    (panel,) = [each for each in of_type(document, Panel) if each.id.startswith(start)]
    return dict(panel.charts)


class Uneven(torch.nn.Module):
    """A network whose last class is more likely by some logits; a blind one sees nothing of the right half."""

    def __init__(self, logits: float, blind: bool = False) -> None:
        super().__init__()
        self.network, self.logits, self.blind = tiny_network(), logits, blind

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.blind:
            images = images * (torch.arange(images.shape[-1]) < images.shape[-1] // 2)
        added = torch.tensor([0.0, 0.0, self.logits]).reshape(1, 3, 1, 1)
        return torch.as_tensor(self.network(images) + added)


def uneven(logits: float, blind: bool = False) -> SegmentationModel:
    return wrap_model(Uneven(logits, blind), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name=f"uneven {logits:g}")


def test_errors_of_ensembles_over_the_weight_of_the_second_model() -> None:
    store, data = Store(), TinyDataset(3, sizes=((32, 48),))
    first, second = uneven(1.0, blind=True), uneven(3.0)
    fog = {"corruption": {"name": "fog", "severity": 3}}
    figures = {}
    for gamma in (1.0, 0.6, 0.0):
        mixed = EnsembleModel([first, second], gamma=gamma)
        for threat in ("clean", fog, {"attack": ATTACK}):
            evaluation = gauntlet.evaluate(mixed, data, threat, store=store, prepare="off")
            figures[gamma, evaluation.kind] = evaluation.figures["aAcc"]
    document = build_report(store)
    (chart,) = charts_of(document, "mixtures-").values()
    assert isinstance(chart, LineChart)
    (table,) = [each for each in of_type(document, Table) if each.id.startswith("mixtures-table-")]
    assert table.columns[-1].name == "zero gradients"
    assert [row[-1] for row in table.rows] == pytest.approx([0.5, 0, 0], abs=0.01)  # of half the pixels, none, none
    lines = {series.name: series for series in chart.series}
    assert list(lines["clean error"].x) == [0.0, 0.4, 1.0]  # gamma is the weight of the first
    reference = figures[0.0, "corruption"]
    wanted = [(reference - figures[gamma, "corruption"]) / reference for gamma in (1.0, 0.6, 0.0)]
    assert lines["natural error"].y == pytest.approx(wanted)
    reference = figures[1.0, "attack"]
    wanted = [(reference - figures[gamma, "attack"]) / reference for gamma in (1.0, 0.6, 0.0)]
    assert lines["adversarial error"].y == pytest.approx(wanted)
    assert (lines["natural error"].y[-1], lines["adversarial error"].y[0]) == (0, 0)


def test_confidence_and_entropy_against_the_kept_share() -> None:
    store, data = Store(), TinyDataset(2)
    stored = {}
    for logits in (0.0, 1.0, 2.0):
        for threat in ("clean", {"attack": ATTACK}):
            stored[logits, threat == "clean"] = gauntlet.evaluate(
                uneven(logits), data, threat, store=store, prepare="off"
            ).figures
        if logits == 1.0:
            assert not [each for each in of_type(build_report(store), Panel) if each.id.startswith("certainty-")]
    charts = charts_of(build_report(store), "certainty-")
    assert len(charts) == 2
    for name, chart in zip(("confidence", "entropy"), charts.values(), strict=True):
        assert isinstance(chart, PointChart)
        assert "n = 3" in chart.note
        for series, logits in zip(chart.series, (0.0, 1.0, 2.0), strict=True):
            assert series.x == pytest.approx([stored[logits, True][name]])
            assert series.y == pytest.approx([stored[logits, False]["mIoU"] / stored[logits, True]["mIoU"]])


def test_matrices_of_transfers_and_transformations_from_a_store() -> None:
    store, data, plain = Store(), TinyDataset(2), model()
    blurred = TransformedModel(plain, kind="blur", trials=2)
    figures = {}
    for target in (plain, blurred):
        gauntlet.evaluate(target, data, "clean", store=store, prepare="off")
        for source in (plain, blurred):
            unaware = target is blurred and source is plain
            threat = {"transfer": {"source_model": "inner" if unaware else source, "attack": ATTACK}}
            found = gauntlet.evaluate(target, data, threat, store=store, prepare="off")
            figures[target is blurred, source is blurred] = found.figures["mIoU"]
    assert set(transfer(store.frame())["made_on"]) == {"tiny", blurred.identity.name}  # "inner" has a name
    matrix = transform_matrix(store.frame())
    assert (list(matrix.index), list(matrix.columns)) == (["none", "blur"], ["none", "blur"])
    assert matrix.loc["none", "blur"] == figures[False, True]
    assert matrix.loc["blur", "none"] == figures[True, False]
    (chart,) = charts_of(build_report(store), "transfer-").values()
    assert isinstance(chart, HeatChart)
    (means,) = [each for each in of_type(build_report(store), Table) if each.id.startswith("transfer-means-")]
    assert means.rows[0][2] == pytest.approx(chart.values[0][0])  # made on itself
    assert means.rows[0][4] == pytest.approx(chart.values[0][1])  # on images of the other
    names = list(chart.y.categories or ())
    assert names == list(chart.x.categories or ())  # white boxes on the diagonal
    assert names[0] == "tiny"
    assert names[1].startswith("transform:kind=blur,")


def test_transformations_of_one_kind_are_told_apart_by_their_settings() -> None:
    store, data, inner = Store(), TinyDataset(2), model()
    weak, strong = (TransformedModel(inner, kind="jpeg", fixed=quality) for quality in (5, 95))
    crossed = {"transfer": {"source_model": weak, "attack": ATTACK}}
    figures = {
        (target, source): gauntlet.evaluate(each, data, threat, store=store, prepare="off").figures["mIoU"]
        for target, source, each, threat in [
            ("5", "5", weak, {"attack": ATTACK}),
            ("95", "95", strong, {"attack": ATTACK}),
            ("95", "5", strong, crossed),
        ]
    }
    matrix = transform_matrix(store.frame())
    assert len(matrix.index) == 2
    assert all(name.startswith("jpeg,") for name in matrix.index)
    for (target, source), figure in figures.items():
        row, column = (
            next(name for name in matrix.index if f"fixed={quality}" in name.split(",")) for quality in (target, source)
        )
        assert matrix.loc[row, column] == figure


CLEAN: dict[str, Any] = {"clean": {}}


def defended_rows(store: Store) -> dict[str, list[Cell]]:
    """The rows of the table of defended models without the name, by the name."""
    (scope,) = scopes(store.frame())
    section = wrapped.section(scope)
    assert section is not None
    (table,) = of_type(section, Table)
    return {str(name): list(cells) for name, *cells in table.rows}


def numbers(cells: Sequence[Cell]) -> list[float]:
    """Numbers of cells, NaN for empty ones."""
    return [number_of(each) for each in cells]


def nearly(*values: float) -> Any:
    return pytest.approx(list(values), nan_ok=True)


EMPTY = math.nan


def test_what_a_random_defence_costs_how_it_varies_and_what_an_adaptive_attack_leaves() -> None:
    store, inner = Store(), model()
    blurred = TransformedModel(inner, kind="blur", trials=3).identity
    trials = [[Figure("mIoU", value, low=value - 0.1, high=value + 0.1)] for value in (0.5, 0.6, 0.7)]
    enter(store, inner.identity, CLEAN, 0.75)
    enter(store, inner.identity, {"attack": ATTACK}, 0.01)  # on another model
    enter(store, blurred, CLEAN, trial_figures(trials, Views.of_trials(3), {"mIoU"}))
    transfer_of = {"transfer": {"source_model": "inner", "attack": {**ATTACK, "samples": 9}}}
    for description, value in (
        ({"attack": ATTACK}, 0.05),  # lower, but meets one draw at a time
        ({"attack": {**ATTACK, "samples": 3}}, 0.2),
        ({"attack": {**ATTACK, "samples": 9}}, 0.15),
        (transfer_of, 0.1),  # made on the model inside
    ):
        enter(store, blurred, description, value, threat=f"pgd {value}")
    rows = defended_rows(store)
    assert list(rows) == [address_of(blurred.name)]
    *cells, attack = rows[address_of(blurred.name)]
    assert numbers(cells) == nearly(0.75, 0.6, -0.15, 3, 0.1, 0.15)
    assert attack == "pgd 0.15"
    assert isinstance(cells[1], Interval)
    assert (cells[1].low, cells[1].high) == pytest.approx((0.5, 0.7))


def test_a_fixed_defence_has_no_trials_and_what_the_store_lacks_is_empty() -> None:
    store, inner = Store(), model()
    fixed, crf = TransformedModel(inner, kind="jpeg", fixed=75).identity, Crf(inner, iterations=1).identity
    once = NoisyModel(inner, sigma=0.1, trials=1).identity
    enter(store, inner.identity, CLEAN, 0.7)
    enter(store, fixed, CLEAN, 0.72)
    enter(store, fixed, {"attack": ATTACK}, 0.3, threat="pgd")
    enter(store, crf, {"corruption": {"name": "fog", "severity": 3}}, 0.4)
    enter(store, once, CLEAN, 0.65)
    rows = defended_rows(store)
    assert numbers(rows[address_of(fixed.name)]) == nearly(0.7, 0.72, 0.02, EMPTY, EMPTY, 0.3, EMPTY)
    assert rows[address_of(fixed.name)][-1] == "pgd"
    assert numbers(rows[address_of(crf.name)]) == nearly(0.7, *[EMPTY] * 6)
    assert rows[address_of(crf.name)][-1] is None
    assert numbers(rows[address_of(once.name)]) == nearly(0.7, 0.65, -0.05, 1, *[EMPTY] * 3)


def test_the_digest_tells_which_of_several_weights_is_inside() -> None:
    store, inner = Store(), model()
    defended = MultiscaleModel(inner, scales=(0.5, 1)).identity
    enter(store, defended, CLEAN, 0.5)
    enter(store, ModelIdentity(inner.identity.name, "other weights"), CLEAN, 0.9)
    assert numbers(defended_rows(store)[address_of(defended.name)][:3]) == nearly(EMPTY, 0.5, EMPTY)
    enter(store, inner.identity, CLEAN, 0.6)
    assert numbers(defended_rows(store)[address_of(defended.name)][:3]) == nearly(0.6, 0.5, -0.1)


def test_a_model_is_compared_with_the_one_inside_under_its_own_seed() -> None:
    store, inner = Store(), model()
    defended = MultiscaleModel(inner, scales=(0.5, 1)).identity
    for seed in (0, 1):
        enter(store, inner.identity, CLEAN, 0.6 + 0.1 * seed, seed=seed)
        enter(store, defended, CLEAN, 0.5, seed=seed)
    assert [numbers(cells[:3]) for cells in defended_rows(store).values()] == [
        nearly(0.6, 0.5, -0.1),
        nearly(0.7, 0.5, -0.2),
    ]


def test_an_ensemble_is_compared_with_the_better_member() -> None:
    store, first, second = Store(), model("first"), model("second")
    mixed = EnsembleModel([first, second], gamma=0.4).identity
    enter(store, mixed, CLEAN, 0.7)
    enter(store, first.identity, CLEAN, 0.6)
    assert numbers(defended_rows(store)[address_of(mixed.name)][:3]) == nearly(EMPTY, 0.7, EMPTY)
    enter(store, second.identity, {"attack": ATTACK}, 0.1)
    assert numbers(defended_rows(store)[address_of(mixed.name)][:3]) == nearly(EMPTY, 0.7, EMPTY)
    enter(store, second.identity, CLEAN, 0.65)
    assert numbers(defended_rows(store)[address_of(mixed.name)][:3]) == nearly(0.65, 0.7, 0.05)


def test_the_model_inside_is_found_for_every_defence() -> None:
    store, inner = Store(), model()
    around = [
        MultiscaleModel(inner),
        *(TransformedModel(inner, kind=kind) for kind in ("none", "jpeg", "blur", "hsv", "grey")),
        NoisyModel(inner),
        SmoothedModel(inner),
        Crf(inner),
        EnsembleModel([inner, inner], gamma=0.25),
    ]
    nested = MultiscaleModel(around[2], scales=(0.5, 1))  # the defence right inside it costs something, too
    enter(store, inner.identity, CLEAN, 0.7)
    for each in around:
        enter(store, each.identity, CLEAN, 0.6)
    enter(store, nested.identity, CLEAN, 0.55)
    rows = defended_rows(store)
    assert numbers(rows.pop(address_of(nested.identity.name))[:3]) == nearly(0.6, 0.55, -0.05)
    assert len(rows) == len(around)
    for cells in rows.values():
        assert numbers(cells[:3]) == nearly(0.7, 0.6, -0.1)


def test_a_defence_in_tiles_or_of_another_version_keeps_its_own_figures() -> None:
    store, inner = Store(), model()
    tiled = TiledModel(Crf(inner, iterations=1), size=(12, 12)).identity
    older = ModelIdentity(f"{inner.identity.name} crf gone=1", "f")
    enter(store, inner.identity, CLEAN, 0.7)
    for each in (tiled, older):
        enter(store, each, CLEAN, 0.6)
    assert [numbers(cells[:3]) for cells in defended_rows(store).values()] == [nearly(EMPTY, 0.6, EMPTY)] * 2


def test_trials_of_an_evaluation_stand_in_the_report_and_on_the_site() -> None:
    store, data, plain = Store(), TinyDataset(2), model()
    noisy = NoisyModel(plain, sigma=0.3, trials=4)
    gauntlet.evaluate(plain, data, "clean", store=store)
    assert wrapped.section(scopes(store.frame())[0]) is None
    assert "Defended models" not in [section.title for section in build_report(store).parts[0].sections]
    clean = gauntlet.evaluate(noisy, data, "clean", store=store, prepare="off").figures["mIoU"]
    frame = store.frame()
    of_trials = frame[frame["metric"].eq("mIoU") & frame["view"].str.startswith("trial ")]["value"]
    (table,) = [each for each in of_type(build_report(store), Table) if each.title == "Defended models"]
    assert [column.name for column in table.columns][1:4] == ["clean mIoU inside", "clean mIoU", "difference"]
    (row,) = table.rows
    assert numbers(row[2:6])[::2] == nearly(clean, 4)
    assert number_of(row[5]) == pytest.approx(np.std(of_trials, ddof=1))
    assert number_of(row[5]) > 0
    (part,) = defended_parts(frame)
    assert [section.title for section in part.sections] == ["Defended models", "Suspicious"]
