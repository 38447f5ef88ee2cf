"""Conversion of plain networks to spiking ones (rate coding)."""
