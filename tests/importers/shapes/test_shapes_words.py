"""The largest number and the longest line of shapes are accepted; one more is refused."""

from __future__ import annotations

import pytest

from nirbridge.errors import UsageError
from nirbridge.importers.shapes import LAYERS_MAX, NUMBER_MAX, TEXT_MAX, parse_shapes


@pytest.mark.parametrize("line", ["{} dense1 lif", "3 dense{} lif", "2x{} sumpool2 lif", "1x2x2 conv{}k1 lif"])
def test_numbers_up_to_the_largest(line: str) -> None:
    assert len(parse_shapes(line.format(NUMBER_MAX))) == len(line.split())
    with pytest.raises(UsageError, match=f"is (2x)?{NUMBER_MAX + 1}, from 1 to 100,000,000 are taken"):
        parse_shapes(line.format(NUMBER_MAX + 1))
    with pytest.raises(UsageError, match="is (2x)?0, from 1 to"):
        parse_shapes(line.format(0))


def test_lines_up_to_the_longest() -> None:
    assert len(parse_shapes("3" + " lif" * LAYERS_MAX)) == LAYERS_MAX + 1
    with pytest.raises(UsageError, match="it has 1,001 layers, at most 1,000 are read"):
        parse_shapes("3" + " lif" * (LAYERS_MAX + 1))
    assert len(parse_shapes("3 lif".ljust(TEXT_MAX))) == 2
    with pytest.raises(UsageError, match="it has 20,001 characters, at most 20,000 are read"):
        parse_shapes("3 lif".ljust(TEXT_MAX + 1))
