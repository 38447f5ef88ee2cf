"""Files of quantized networks."""
