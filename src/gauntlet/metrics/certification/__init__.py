"""Certified segmentation by randomised smoothing: votes, tests, certified figures (docs/specs/defences.md, 6)."""

from gauntlet.metrics.certification.metric import CertificationMetric
from gauntlet.metrics.certification.testing import certified_radius, needed_samples, p_values, rejected
from gauntlet.metrics.certification.votes import Votes

__all__ = ["CertificationMetric", "Votes", "certified_radius", "needed_samples", "p_values", "rejected"]
