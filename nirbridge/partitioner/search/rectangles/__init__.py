"""Tilings of feature maps into rectangles of any sizes, for chips whose input axons are scarce."""
