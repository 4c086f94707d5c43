"""What ReM and GAM are taken over: the attacks and corruptions of the two benchmarks (docs/specs/metrics.md, 6)."""

from __future__ import annotations

from gauntlet.tasks import DETECTION, SEGMENTATION, TASKS

CORRUPTION_FAMILIES: dict[str, tuple[str, ...]] = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
COMMON_CORRUPTIONS = tuple(name for family in CORRUPTION_FAMILIES.values() for name in family)
"""The fifteen two-dimensional corruptions over which GAM is the minimum in segmentation."""

COMMON_3D = (
    *("color_quant", "far_focus", "fog_3d", "iso_noise", "low_light", "near_focus", "xy_motion_blur", "z_motion_blur"),
)
"""The eight three-dimensional corruptions that detection adds; the h265 ones are left out of GAM."""

DEPTH_CORRUPTIONS = ("far_focus", "fog_3d", "near_focus", "xy_motion_blur", "z_motion_blur")
"""Those of the eight that look at depth; the benchmark reads it by the rule "estimated" (`depth_rule`)."""

C_BAR = (
    *("blue_noise_sample", "brownish_noise", "caustic_refraction", "checkerboard_cutout", "cocentric_sine_waves"),
    *("inverse_sparkles", "perlin_noise", "plasma_noise", "single_frequency_greyscale", "sparkles"),
)
"""The ten of ImageNet-C-bar (docs/specs/beyond.md, 9); part of no benchmark's figure."""

ATTACKS = {name: task.rem_attacks for name, task in TASKS.items()}
"""The attacks of ReM, by task."""

CORRUPTIONS = {SEGMENTATION: COMMON_CORRUPTIONS, DETECTION: (*COMMON_CORRUPTIONS, *COMMON_3D)}
"""The corruptions of GAM, by task."""

SUITE_BUDGETS = ("GAM_3", "linf-ReM^8_20", "l2-ReM^64_20")
"""The severity of GAM and the budgets of ReM that the suites `semsegbench` and `detecbench` run."""
