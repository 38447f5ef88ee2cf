"""NIR graphs and networks: all that knows NIR nodes."""
