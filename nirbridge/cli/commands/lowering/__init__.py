"""Commands that show a model in an intermediate representation."""
