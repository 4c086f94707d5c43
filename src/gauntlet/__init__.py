"""Gauntlet: how reliable is a segmentation or detection model?"""

from gauntlet._version import __version__

__all__ = ["__version__"]
