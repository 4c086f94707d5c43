"""Plug-ins for Gauntlet that cannot be used."""
