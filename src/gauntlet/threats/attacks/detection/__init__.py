"""Attacks on detectors: the problem of a batch of objects, and what can be wanted of it."""
