"""Proofs by running: an import beside the module that it was made of (``self_check``)."""
