"""Lower bounds on the hops of any placement of given blocks."""
