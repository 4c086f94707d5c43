"""Arnab, Miksik and Torr 2018: On the Robustness of Semantic Segmentation Models to Adversarial Attacks.

docs/specs/studies.md, 5, and docs/specs/defences.md, 1, 2, 5 and 8. A module per subject.
"""

from gauntlet.studies.contract import studies
from gauntlet.studies.papers.arnab import fields, model_list, networks, pictures, scales, targets, transformations

for _module in (networks, targets, model_list, scales, transformations, fields, pictures):
    for _study in _module.STUDIES:
        studies.add(_study.name, _study, aliases=tuple(_study.also))
