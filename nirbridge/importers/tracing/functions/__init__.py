"""Lowering of torch functions that choose among values, put values together, or are linear maps of any kind."""
