"""Triton as a target: a kernel for each layer's time step, or one that runs all layers and all time steps."""
