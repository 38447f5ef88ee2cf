"""File access: safe reading of arrays, output paths, atomic writing."""
