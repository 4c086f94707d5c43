"""Kinds of threats: what a description's one key names, turned into an object that perturbs batches."""
