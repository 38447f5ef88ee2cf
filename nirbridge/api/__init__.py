"""The functions at the top of ``nirbridge``: each takes what a person has at hand and calls the pipeline."""
