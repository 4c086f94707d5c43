"""DetecBench's own names and parameters, on its 0 to 255 scale, giving Gauntlet's threats.

from gauntlet.threats.compat.detecbench import IID, attacks, corruptions

gauntlet.evaluate(model, dataset, attacks.PGD(epsilon=8, alpha=2.55, steps=20, norm="inf", random_start=True))
gauntlet.evaluate(model, dataset, corruptions.CommonCorruption(name="contrast", severity=3))
"""

from gauntlet.threats.compat.detecbench import attacks, corruptions
from gauntlet.threats.compat.detecbench.clean import IID
from gauntlet.threats.contract import Threat

__all__ = ["IID", "Threat", "attacks", "corruptions"]
