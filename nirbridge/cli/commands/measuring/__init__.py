"""Commands that measure how fast a model runs here."""
