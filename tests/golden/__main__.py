"""Regenerate every golden text and digest."""

import warnings

from tests.golden.texts import write

warnings.simplefilter("ignore")
write()
