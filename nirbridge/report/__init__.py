"""Results as text for a terminal, one module for each kind of result."""
