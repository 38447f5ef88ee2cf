"""The environment of Lava, and supervised runs."""
