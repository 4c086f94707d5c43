"""Studies that are pictures: every threat on one image, and what each model says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gauntlet import pictures
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.evaluation.jobs import ready_model, resolve_for
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, open_dataset
from gauntlet.models import DetectionModel, GauntletModel, load_model
from gauntlet.numbers import counted
from gauntlet.report.document import Command, Document, Exhibit, Gallery, Picture, Section
from gauntlet.report.gallery import PictureMaker, label_picture, photo, picture_maker
from gauntlet.report.painters import LabelPainter
from gauntlet.report.rounds import draw_mask, rounds_on
from gauntlet.report.unlabelled import OneSample, read_sample, with_truth
from gauntlet.samples import Batch, Sample, collate, images_to_tensor
from gauntlet.seeding import ImageSeed
from gauntlet.studies.contract import Study
from gauntlet.studies.drawings import slug
from gauntlet.studies.page import finding_section, study_document
from gauntlet.studies.running import check_number, study_members, with_sources
from gauntlet.threats import build_threat
from gauntlet.threats.contract import Threat
from gauntlet.threats.kinds.attack import RegionAwareThreat

CLASS = "@class:"
"""Before the name of a class in the threats of a picture; its number in the dataset takes the place of both."""


def picture_page(
    study: Study,
    models: Sequence[ModelEntry | str],
    dataset: DatasetEntry | str,
    command: str,
    *,
    image: str = "0",
    second_model: str = "",
    seed: int = 0,
) -> Document:
    """The page of a study that is a picture.

    Args:
        study: of the kind "picture".
        models: addresses, or addresses with options.
        dataset: a name, or a name with split and root.
        command: what makes the page again.
        image: an image file; or of the dataset, the number of an image from 0 on or its id.
        second_model: as for `run_study`.
        seed: of the threats.
    """
    check_number(study, models)
    file = Path(image) if Path(image).is_file() else None
    data = None if file else open_dataset(DatasetEntry(name=dataset) if isinstance(dataset, str) else dataset)
    sample = read_sample(file) if file else find_sample(data, image)  # type: ignore[arg-type] # one of the two
    sections = [finding_section(study)]
    for model in models:
        entry = ModelEntry(address=model) if isinstance(model, str) else model
        members = study_members(study, entry, second_model)
        known = _class_names(study, members, data)
        threats = {
            label: build_threat(with_classes(with_sources(each, members), known))
            for label, each in study.threats.items()
        }
        galleries = []
        for label, member in members.items():
            loaded = load_model(member.address, **member.options) if data is None else _ready(member, data)
            maker = picture_maker(loaded, data or OneSample(sample, loaded))
            whole = with_truth(sample, loaded)
            attacked = {
                name: aimed_at(whole, study.aims[name], _label_painter(maker)) if name in study.aims else whole
                for name in threats
            }
            galleries.append(_gallery(label, sample, attacked, maker, threats, seed))
        sections.append(Section(f"here-{slug(entry.address)}", entry.address, galleries))
    sections.append(Section("made", "How this page was made", [Command(command)]))
    subtitle = f"{study.question} {counted(len(models), 'model')}, image '{sample.id}'."
    return study_document(study, subtitle, sections)


def find_sample(dataset: Dataset, image: str) -> Sample:
    """An image of a dataset by its number from 0 on or its id."""
    ids = list(dataset.ids())
    if image in ids:
        return dataset[ids.index(image)]
    if image.isdecimal() and int(image) < len(ids):
        return dataset[int(image)]
    raise GauntletError(
        f"'{image}' is neither an image file nor an image of '{dataset.name}'; give a path, an id or a number from 0 "
        f"to {len(ids) - 1}."
    )


def _ready(member: ModelEntry, dataset: Dataset) -> GauntletModel:
    return ready_model(resolve_for(member.address, member.options, dataset), dataset, torch.device("cpu"))


def _label_painter(maker: PictureMaker[Any]) -> LabelPainter:
    """The painter of label maps; an error for that of a detector."""
    if not isinstance(maker.painter, LabelPainter):
        raise GauntletError("this study aims at pixels of a class, or at pixels in rounds: a detector has none.")
    return maker.painter


def with_classes(threat: Any, class_names: Sequence[str]) -> Any:
    """A threat with the number of a class in the place of "@class:NAME"."""
    if isinstance(threat, Mapping):
        return {key: with_classes(value, class_names) for key, value in threat.items()}
    if not (isinstance(threat, str) and threat.startswith(CLASS)):
        return threat
    return _class_index(threat.removeprefix(CLASS), class_names)


def aimed_at(sample: Sample, aim: str, painter: LabelPainter) -> Sample:
    """A sample whose labels are void but for one class."""
    index, void = _class_index(aim, painter.class_names), painter.dataset.ignore_index
    labels = painter.truth(sample)
    if void is None or not (labels == index).any():
        raise GauntletError(f"the image '{sample.id}' has no pixel of the class '{aim}'; choose another --image.")
    return replace(sample, labels=np.where(labels == index, labels, void).astype(labels.dtype))


def _class_index(name: str, class_names: Sequence[str]) -> int:
    if name not in class_names:
        raise unknown_name("class", name, class_names)
    return list(class_names).index(name)


def _class_names(study: Study, members: Mapping[str, ModelEntry], dataset: Dataset | None) -> Sequence[str]:
    """The classes of the dataset; of an image file, those of the model, where the study needs any."""
    if dataset is not None:
        return dataset.class_names
    if CLASS not in str(study.threats):
        return ()
    first = next(iter(members.values()))
    return load_model(first.address, **first.options).class_names


def _gallery(
    title: str,
    sample: Sample,
    attacked: Mapping[str, Sample],
    maker: PictureMaker[Any],
    threats: Mapping[str, Threat],
    seed: int,
) -> Gallery:
    """One member: the image, what it says about it, and the same under every threat.

    Args:
        title: of the gallery.
        sample: what is drawn.
        attacked: by threat, the same with the truth that it moves away from: without ground truth, what the model says.
        maker: what asks the model, and draws.
        threats: by label.
        seed: of the threats.
    """
    painter, model = maker.painter, maker.model
    clean = painter.predict(images_to_tensor([sample.image], model.device), sample.id)
    panels: list[Picture] = [photo("input", sample.image)]
    seen = painter.classes_of(clean)
    words = []
    told = (sample.boxes if isinstance(model, DetectionModel) else sample.labels) is not None
    if told:
        panels.append(maker.truth(sample))
        seen |= painter.classes_of(painter.truth(sample))
        words.append(f"{painter.right_words} {painter.right(sample, clean):.1%} clean")
    panels.append(maker.prediction("clean", sample.image, clean))
    for label, threat in threats.items():
        batch = collate([attacked[label]], model.device, painter.dataset.ignore_index)
        if isinstance(threat, RegionAwareThreat):
            panels += _round_pictures(threat, _label_painter(maker), batch, ImageSeed(seed, sample.id))
            continue
        perturbed = threat.perturb(model, batch, [ImageSeed(seed, sample.id)])
        changed = pictures.from_tensor(perturbed.images[0])
        difference, factor = pictures.amplified_difference(sample.image, changed)
        truth = sample if perturbed.samples is None else perturbed.samples[0]
        said = painter.predict(perturbed.images, sample.id)
        panels += [
            photo(label, changed),
            photo(f"{label}: difference x {factor:.1f}", difference),
            maker.prediction(f"{label}:", changed, said),
        ]
        if perturbed.region is not None:
            panels.append(photo(f"{label}: where", draw_mask(perturbed.region[0].cpu().numpy())))
        seen |= painter.classes_of(said)
        if told:
            words.append(f"{painter.right(truth, said):.1%} under {label}")
    exhibit = Exhibit(sample.id, ", ".join(words), panels)
    return Gallery(title, painter.legend(seen), [exhibit])


def _round_pictures(threat: RegionAwareThreat, painter: LabelPainter, batch: Batch, seed: ImageSeed) -> list[Picture]:
    """Every round of the region-aware attack, and the worst case per pixel over them."""
    made = rounds_on(threat, painter, batch, seed)
    panels: list[Picture] = []
    for number, each in enumerate(made.rounds, 1):
        panels += [
            photo(f"round {number}", each.image),
            photo(f"round {number}: aims at", draw_mask(each.aimed_at)),
            label_picture(f"round {number}: prediction", painter, each.prediction),
            photo(f"round {number}: newly wrong", draw_mask(each.newly_wrong)),
        ]
    return [*panels, label_picture("cumulative output", painter, made.cumulative)]
