"""Verilog-2005: a quantized network as circuits whose widths are proved."""
