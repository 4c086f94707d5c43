"""Attacks and batteries as typed functions: `gauntlet.attacks.pgd(model, images, labels, epsilon="8/255", steps=20)`.

Each builds the attack of its name (with "_" for "-") and calls it once; `build` gives an attack to keep. Options and
defaults are those of `build`. None stands for a default that depends on other options: an epsilon of 8/255 (linf) or
64/255 (l2) for attacks in a ball, none for smallest perturbations. Numbers may be texts such as "8/255". Options are
explained where the class of the attack is (`algorithms`), arguments that many functions share in `calling`.
"""

from __future__ import annotations

from gauntlet.threats.attacks.functions.adaptive_steps import apgd, sea_bce, sea_jsd, sea_mce, sea_mce_bal, sea_msl
from gauntlet.threats.attacks.functions.combinations import (
    detecbench,
    detectors,
    halmosi,
    region_aware,
    sea,
    semsegbench,
)
from gauntlet.threats.attacks.functions.equal_steps import (
    bim,
    cospgd,
    ifgsm,
    ifgsm_ll,
    mifgsm,
    padam_ce,
    padam_cos,
    pgd,
    segpgd,
)
from gauntlet.threats.attacks.functions.single_steps import fgsm, fgsm_ll, fgsm_nth
from gauntlet.threats.attacks.functions.smallest import alma_prox, dag, fmn, minimal_pgd, pdgd, pdpgd
from gauntlet.threats.attacks.functions.whole_images import (
    tog_fabrication,
    tog_mislabeling,
    tog_untargeted,
    tog_vanishing,
)

__all__ = [
    "alma_prox",
    "apgd",
    "bim",
    "cospgd",
    "dag",
    "detecbench",
    "detectors",
    "fgsm",
    "fgsm_ll",
    "fgsm_nth",
    "fmn",
    "halmosi",
    "ifgsm",
    "ifgsm_ll",
    "mifgsm",
    "minimal_pgd",
    "padam_ce",
    "padam_cos",
    "pdgd",
    "pdpgd",
    "pgd",
    "region_aware",
    "sea",
    "sea_bce",
    "sea_jsd",
    "sea_mce",
    "sea_mce_bal",
    "sea_msl",
    "segpgd",
    "semsegbench",
    "tog_fabrication",
    "tog_mislabeling",
    "tog_untargeted",
    "tog_vanishing",
]
