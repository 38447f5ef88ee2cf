"""The compiler of this machine, and supervised runs of compiled programs."""
