"""What a report says about defended models, transferred attacks and certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gauntlet
from gauntlet.analysis import transfer, transform_matrix
from gauntlet.defences import Crf, EnsembleModel, MultiscaleModel, NoisyModel, SmoothedModel, TransformedModel
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.models.defended_names import address_of, defences_in
from gauntlet.models.tiling import TiledModel
from gauntlet.report.assembly import build_report
from gauntlet.report.charts import HeatChart, LineChart, Panel, PointChart
from gauntlet.report.document import Bullets, Document, Findings, of_type
from gauntlet.report.pages.entries import store_entries
from gauntlet.report.pages.leaderboard_site import defended_parts, write_site
from gauntlet.report.scope import scopes
from gauntlet.report.sections.defended import averaging_stronger, never_attacked_adaptively, targeted_stronger
from gauntlet.report.tables import Table
from gauntlet.results import Store
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
