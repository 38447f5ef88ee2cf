"""Networks from one line of text."""
