"""Moves of the camera that move the ground truth along: rotation, translation, scale, shear, lenses, perspective.

docs/specs/beyond.md, section 8.
"""
