"""Studies that are pictures: every threat on one image, and what each model says about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from gauntlet import pictures
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.jobs import ready_model, resolve_for
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, open_dataset
from gauntlet.models import GauntletModel, SegmentationModel, load_model
from gauntlet.report.document import Document, Exhibit, Gallery, Picture, Section, Text
from gauntlet.report.gallery import label_picture, photo
from gauntlet.report.painters import LabelPainter
from gauntlet.report.unlabelled import OneSample, read_sample, with_truth
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.studies.contract import Study
from gauntlet.studies.drawings import slug
from gauntlet.studies.page import finding_section, study_document
from gauntlet.studies.running import check_number, study_members, with_sources
from gauntlet.threats import build_threat
from gauntlet.threats.contract import Threat


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
        threats = {label: build_threat(with_sources(each, members)) for label, each in study.threats.items()}
        galleries = []
        for label, member in members.items():
            loaded = load_model(member.address, **member.options) if data is None else _ready(member, data)
            painter = LabelPainter(data or OneSample(sample, loaded), _segmentation(study, loaded))
            galleries.append(_gallery(label, sample, loaded, painter, threats, seed))
        sections.append(Section(f"here-{slug(entry.address)}", entry.address, galleries))
    sections.append(Section("made", "How this page was made", [Text(command)]))
    subtitle = f"{study.question} {len(models)} models, image '{sample.id}'."
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


def _segmentation(study: Study, model: GauntletModel) -> SegmentationModel:
    if not isinstance(model, SegmentationModel):
        raise GauntletError(f"the study '{study.name}' draws label maps, and '{model.identity.name}' predicts boxes.")
    return model


def _gallery(
    title: str, sample: Sample, model: GauntletModel, painter: LabelPainter, threats: dict[str, Threat], seed: int
) -> Gallery:
    """One member: the image, what it says about it, and the same under every threat."""
    # An attack has to move away from something: without ground truth, from what the model says.
    batch = collate([with_truth(sample, model)], ignore_index=painter.dataset.ignore_index)
    clean = painter.predict(batch.images, sample.id)
    panels: list[Picture] = [photo("input", sample.image)]
    seen = painter.classes_of(clean)
    words = []
    if sample.labels is not None:
        panels.append(label_picture("ground truth", painter, sample.labels))
        seen |= painter.classes_of(sample.labels)
        words.append(f"{painter.right_words} {painter.right(sample, clean):.1%} clean")
    panels.append(label_picture("clean prediction", painter, clean))
    for label, threat in threats.items():
        perturbed = threat.perturb(model, batch, [ImageSeed(seed, sample.id)])
        changed = pictures.from_tensor(perturbed.images[0])
        difference, factor = pictures.amplified_difference(sample.image, changed)
        said = painter.predict(perturbed.images, sample.id)
        panels += [
            photo(label, changed),
            photo(f"{label}: difference x {factor:.1f}", difference),
            label_picture(f"{label}: prediction", painter, said),
        ]
        seen |= painter.classes_of(said)
        if sample.labels is not None:
            words.append(f"{painter.right(sample, said):.1%} under {label}")
    exhibit = Exhibit(sample.id, ", ".join(words), panels)
    return Gallery(title, painter.legend(seen), [exhibit])
