"""The machine that nirbridge runs on: the optional tools that are there."""
