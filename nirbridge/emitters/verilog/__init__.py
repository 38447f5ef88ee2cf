"""Verilog: a network as a circuit, one core a population, for open tools and boards that people own."""
