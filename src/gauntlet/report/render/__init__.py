"""Formats: each module writes the same document its own way."""
