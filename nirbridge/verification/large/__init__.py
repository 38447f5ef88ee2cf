"""The self-check of modules that are too large for the default one: fewer time steps, else sampled neurons."""
