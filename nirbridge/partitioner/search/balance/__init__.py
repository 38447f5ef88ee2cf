"""Balanced fillings: cores that hold stretches of several populations."""
