"""Programs for TorchInductor: the torch module compiled ahead of time to a package of C++."""
