"""Sections on how sure models are: certainty, calibration, certificates."""
