"""Programs for other tools: a network in, files in memory out; nothing is written or run here."""
