"""Plug-ins for Gauntlet, one of every kind."""
