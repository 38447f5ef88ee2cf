"""The report: one self-contained HTML page of any value, or of everything that is known about one model."""
