"""Profiles as text, as one JSON document, and as tables in files."""
