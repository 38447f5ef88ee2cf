"""The disk: how arrays are read safely, where an output goes, and how it gets there whole or not at all."""
