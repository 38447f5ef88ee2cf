"""The disk: where an output goes, and how it gets there whole or not at all."""
