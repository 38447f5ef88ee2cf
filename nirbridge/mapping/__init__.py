"""Blocks onto cores: placement, routes, costs and rates; the map file, and a checker that shares nothing with them."""
