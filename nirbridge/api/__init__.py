"""The functions at the top of ``nirbridge``: each accepts models in any form and calls the pipeline."""
