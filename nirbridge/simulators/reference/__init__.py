"""The executable semantics, and the arrays it runs on."""
