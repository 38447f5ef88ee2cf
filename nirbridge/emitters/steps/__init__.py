"""Tools that read ONNX as targets: one time step as a model whose states go in and out, and the loop over time."""
