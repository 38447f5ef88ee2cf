"""SANA-FE 2.2.9: its architecture and network from a map, and runs of the package in a process of its own."""
