"""Modules that ``nirbridge emit`` wrote, read again: their names, and the structure of those of PyTorch alone."""
