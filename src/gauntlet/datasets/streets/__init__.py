"""The embedded dataset: generated street scenes with CamVid's classes, boxes and depth."""

from gauntlet.datasets.streets.dataset import RENDERER_VERSION, Streets

__all__ = ["RENDERER_VERSION", "Streets"]
