"""Two recordings compared."""
