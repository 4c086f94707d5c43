"""What SemSegBench's paper imports from `semsegbench.evals`; Gauntlet's own functions take its arguments.

model, results = evaluate(
    model_name="upernet", backbone="InterImage-H", dataset="ADE20k", retrieve_existing=True, threat_config="PGD.yml"
)
"""

from gauntlet.evaluation import evaluate
from gauntlet.models import load_model

__all__ = ["evaluate", "load_model"]
