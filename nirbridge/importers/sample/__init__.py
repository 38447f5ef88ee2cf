"""Samples that a model is traced with: values, names and axes."""
