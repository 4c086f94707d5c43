"""Segmentation: counts from label maps, figures from counts."""
