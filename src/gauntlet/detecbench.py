"""What DetecBench's paper imports from `detecbench`; Gauntlet's own functions take its arguments.

model = load_model(model_folder="models/DINO_Swin-L", trust=True)
evaluate(task=attacks.PGD(epsilon=8, alpha=2.55, steps=20), model_folder="models/DINO_Swin-L", trust=True,
         log_dir="logs")
"""

from gauntlet.evaluation import evaluate
from gauntlet.models import load_model
from gauntlet.threats.compat.detecbench import IID, attacks, corruptions

__all__ = ["IID", "attacks", "corruptions", "evaluate", "load_model"]
