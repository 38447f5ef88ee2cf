"""Forms of user code, one by one: equal to the module by the self-check, or refused with the reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
for framework in ("snntorch", "norse", "sinabs", "spikingjelly", "rockpool"):
    pytest.importorskip(framework, reason=f"{framework} is not installed")

from tests.importers.tutorials import (  # noqa: E402
    choice_forms,
    container_forms,
    forms,
    index_forms,
    linear_forms,
    logic_forms,
    step_forms,
)
from tests.importers.tutorials.forms import EQUAL, outcome  # noqa: E402

FORMS = [
    form
    for part in (linear_forms, step_forms, container_forms, logic_forms, choice_forms, index_forms)
    for form in part.forms()
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_form_is_equal_or_refused_with_its_reason(form: Any) -> None:
    found = outcome(form)
    if form.wanted == EQUAL:
        assert found == EQUAL
    else:
        assert found.startswith("refused: ")
        assert re.search(form.wanted, found), found


@pytest.mark.slow
def test_a_compiled_module_is_imported_as_it_was_written() -> None:
    form = forms.Form("snntorch", "compiled", lambda: torch.compile(index_forms.Indexed(_now, 6)), (12, 2, 6))
    assert outcome(form) == EQUAL


def _now(x: Any, t: int) -> Any:
    return x[t]
