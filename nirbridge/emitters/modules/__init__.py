"""Networks as trainable Python modules of PyTorch and its frameworks for spiking networks."""
