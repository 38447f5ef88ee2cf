"""How ``.nir`` files are written."""
