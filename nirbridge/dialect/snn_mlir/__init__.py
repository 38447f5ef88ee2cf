"""Interchange with snn-mlir: its MLIR text written and read, for the networks that it holds. Needs no xDSL."""
