"""One time step, stated once: rules of neurons, terms that a rule yields, and what is read off from them."""
