"""Chips that store like kernels once: tilings with few truncated kernels, and how many any map has to store."""
