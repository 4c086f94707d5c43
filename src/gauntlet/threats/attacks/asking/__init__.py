"""Attacks that only ask the model, and never differentiate it (docs/specs/beyond.md, 5)."""
