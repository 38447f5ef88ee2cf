"""How many examples a test tries: few in ``make test``, many in ``make test-slow``, which sets ``NIRBRIDGE_CASES``.

Few are enough for each kind of case to occur; many are what the test was written and first passed with, or more.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

MANY = os.environ.get("NIRBRIDGE_CASES") == "many"


def cases(few: T, many: T) -> T:
    """``few``, or with ``NIRBRIDGE_CASES=many`` the larger setting: a number of examples, or seeds of networks."""
    return many if MANY else few
