"""What the figures say: leaderboards, correlations, curves, distributions, significance. Tidy frames in and out."""

from gauntlet.analysis.by_class import by_class
from gauntlet.analysis.correlation import correlate, correlations, scores_by_dataset, scores_by_metric
from gauntlet.analysis.cost import strength_over_cost
from gauntlet.analysis.curves import curve
from gauntlet.analysis.distribution import (
    best_attack,
    image_distribution,
    image_summary,
    median_perturbation,
    minimum_norms,
    perturbation_cdf,
)
from gauntlet.analysis.leaderboard import leaderboard, threat_table
from gauntlet.analysis.mean_performance import mpc
from gauntlet.analysis.rem_gam import gam, rem
from gauntlet.analysis.scores import scores, summaries
from gauntlet.analysis.significance import (
    compare_counts,
    compare_groups,
    compare_images,
    compare_objects,
    image_differences,
)
from gauntlet.analysis.size_bias import by_size, image_to_dataset_ratio, objects, size_bias
from gauntlet.analysis.transfer import transfer, transfer_matrix, transform_matrix

__all__ = [
    "best_attack",
    "by_class",
    "by_size",
    "compare_counts",
    "compare_groups",
    "compare_images",
    "compare_objects",
    "correlate",
    "correlations",
    "curve",
    "gam",
    "image_differences",
    "image_distribution",
    "image_summary",
    "image_to_dataset_ratio",
    "leaderboard",
    "median_perturbation",
    "minimum_norms",
    "mpc",
    "objects",
    "perturbation_cdf",
    "rem",
    "scores",
    "scores_by_dataset",
    "scores_by_metric",
    "size_bias",
    "strength_over_cost",
    "summaries",
    "threat_table",
    "transfer",
    "transfer_matrix",
    "transform_matrix",
]
