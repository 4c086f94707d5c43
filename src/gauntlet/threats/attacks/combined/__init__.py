"""Attacks made of several runs of other attacks: batteries and the region-aware multi-attack."""
