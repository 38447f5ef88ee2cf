"""Pictures as figures of matplotlib (the extra ``plot``): every function draws on one ``Axes`` and returns it."""
