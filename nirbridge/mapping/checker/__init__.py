"""The checker of mappings; it shares nothing with the search."""
