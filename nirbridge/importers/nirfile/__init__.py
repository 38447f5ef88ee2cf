"""NIR files: reading, checking, repairing and writing."""
