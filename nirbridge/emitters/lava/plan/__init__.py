"""The program that will be emitted, as data."""
