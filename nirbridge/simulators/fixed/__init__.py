"""The simulator in integers."""
