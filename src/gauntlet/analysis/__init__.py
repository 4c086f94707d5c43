"""What the figures say: leaderboards, correlations, curves, distributions, significance. Tidy frames in and out."""

from gauntlet.analysis.bravo import bravo_index
from gauntlet.analysis.by_class import by_class
from gauntlet.analysis.correlation import correlate, correlations, scores_by_dataset, scores_by_metric
from gauntlet.analysis.corruption_performance import (
    mean_corruption_error,
    mean_performance_under_corruption,
    mpc,
    relative_performance_under_corruption,
)
from gauntlet.analysis.cost import strength_over_cost
from gauntlet.analysis.curves import curve
from gauntlet.analysis.detection_errors import detection_errors
from gauntlet.analysis.distribution import (
    best_attack,
    image_distribution,
    image_summary,
    median_perturbation,
    minimum_norms,
    perturbation_cdf,
)
from gauntlet.analysis.localized import mean_over_corruptions, position_differences, region_errors
from gauntlet.analysis.optimality import complementarity, ensemble_gain, mean_optimality, optimality, optimality_table
from gauntlet.analysis.scoring.leaderboard import leaderboard, threat_table
from gauntlet.analysis.scoring.rem_gam import gam, rem
from gauntlet.analysis.scoring.scores import scores, summaries
from gauntlet.analysis.significance import (
    compare_counts,
    compare_groups,
    compare_images,
    compare_objects,
    image_differences,
)
from gauntlet.analysis.size_bias import by_size, image_to_dataset_ratio, objects, size_bias, stored_objects
from gauntlet.analysis.transfer import transfer, transfer_matrix, transfer_means, transform_matrix
from gauntlet.analysis.trivial import trivial_figures

__all__ = [
    "best_attack",
    "bravo_index",
    "by_class",
    "by_size",
    "compare_counts",
    "compare_groups",
    "compare_images",
    "compare_objects",
    "complementarity",
    "correlate",
    "correlations",
    "curve",
    "detection_errors",
    "ensemble_gain",
    "gam",
    "image_differences",
    "image_distribution",
    "image_summary",
    "image_to_dataset_ratio",
    "leaderboard",
    "mean_corruption_error",
    "mean_optimality",
    "mean_over_corruptions",
    "mean_performance_under_corruption",
    "median_perturbation",
    "minimum_norms",
    "mpc",
    "objects",
    "optimality",
    "optimality_table",
    "perturbation_cdf",
    "position_differences",
    "region_errors",
    "relative_performance_under_corruption",
    "rem",
    "scores",
    "scores_by_dataset",
    "scores_by_metric",
    "size_bias",
    "stored_objects",
    "strength_over_cost",
    "summaries",
    "threat_table",
    "transfer",
    "transfer_matrix",
    "transfer_means",
    "transform_matrix",
    "trivial_figures",
]
