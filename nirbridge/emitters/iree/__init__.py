"""Programs for IREE: a network's MLIR compiled to a module that its runtime loads."""
