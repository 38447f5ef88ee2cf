"""Forms of user code, one by one: equal to the module by the self-check, or refused with the reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
for framework in ("snntorch", "norse", "sinabs", "spikingjelly", "rockpool"):
    pytest.importorskip(framework, reason=f"{framework} is not installed")

from tests.importers.tutorials import choice_forms, container_forms, linear_forms, logic_forms, step_forms  # noqa: E402
from tests.importers.tutorials.forms import EQUAL, outcome  # noqa: E402

FORMS = [
    form for part in (linear_forms, step_forms, container_forms, logic_forms, choice_forms) for form in part.forms()
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_form_is_equal_or_refused_with_its_reason(form: Any) -> None:
    found = outcome(form)
    if form.wanted == EQUAL:
        assert found == EQUAL
    else:
        assert found.startswith("refused: ")
        assert re.search(form.wanted, found), found
