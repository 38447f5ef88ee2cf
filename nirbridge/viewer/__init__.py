"""One page that shows a model, a map, a recording or a quantized network, read by the page itself."""
