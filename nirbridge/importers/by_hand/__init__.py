"""Neurons written by hand in plain PyTorch, recognised in the trace of a forward."""
