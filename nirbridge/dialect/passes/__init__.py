"""Passes of the dialect: forms of one network that compute the same, chosen by an estimate of their costs."""
