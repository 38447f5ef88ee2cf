"""Lava (lava-nc 0.10.0): programs for it, an environment that runs them, and runs that cannot hang."""
