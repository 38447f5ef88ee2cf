"""Boards: chips in the plane, the links between them, and the tiles of all chips as one mesh.

The meshes of Loihi's chips extend each other in four planar directions (Davies et al. 2018, doi:10.1109/
MM.2018.112130359), so the tiles of a board form one mesh and a spike goes along x first, then along y, over chips as
over tiles. A board is legal if the path between any two of its chips runs over chips and links that exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic

CHECKED_MAX = 128
"""Larger boards are refused unless they fill a rectangle: the paths between all pairs of their chips are looked at."""


def chip_places(chip: Chip) -> tuple[tuple[int, int], ...]:
    """Column and row of every chip of a board; a chain along x where the file does not say otherwise."""
    return chip.board.places or tuple((c, 0) for c in range(chip.mesh.chips_max))


def board_tiles(chip: Chip, chips: int) -> tuple[int, int]:
    """Columns and rows of tiles of the mesh that the first ``chips`` chips and the paths between them lie in."""
    places = chip.board.places
    if places is None:
        return chip.mesh.width_tiles * max(chips, 1), chip.mesh.height_tiles
    used = places[: max(chips, 1)]
    columns, rows = 1 + max(x for x, _ in used), 1 + max(y for _, y in used)
    return chip.mesh.width_tiles * columns, chip.mesh.height_tiles * rows


def board_problems(subject: str, chip: Chip) -> Iterator[Diagnostic]:
    """Places that do not fit the chips, links that join no neighbours, paths that leave the board."""
    places, links = chip.board.places, chip.board.links
    if places is None:
        if links is not None:
            yield Diagnostic(
                subject, "board.links without board.places", "links join chips at places", "add board.places"
            )
        return
    if len(places) != chip.mesh.chips_max or len(set(places)) != len(places):
        found = f"board.places has {len(set(places)):,} distinct places"
        yield Diagnostic(subject, found, f"a board has mesh.chips_max = {chip.mesh.chips_max:,} chips, one at each")
        return
    if places[0] != (0, 0):
        found = f"board.places begins with {list(places[0])}"
        yield Diagnostic(subject, found, "chip 0, where host inputs enter, is at [0, 0]", "number the chips from there")
        return
    area = (1 + max(x for x, _ in places)) * (1 + max(y for _, y in places))
    if links is None and area == len(places):  # a chip at every place: no path leaves the board
        return
    if len(places) > CHECKED_MAX:
        limit = f"at most {CHECKED_MAX}, or as many as fill a rectangle, without board.links"
        yield Diagnostic(subject, f"board.places has {len(places):,} places", limit, "add or drop places")
        return
    tiles = area * chip.mesh.cores
    if tiles > 1_000_000:
        yield Diagnostic(subject, f"board.places spans {tiles:,} cores", "at most 1,000,000", "number places from 0")
        return
    yield from _link_problems(subject, places, links)


def _link_problems(
    subject: str, places: Sequence[tuple[int, int]], links: Sequence[tuple[int, int]] | None
) -> Iterator[Diagnostic]:
    chip_at = {place: c for c, place in enumerate(places)}
    for a, b in links or ():
        if max(a, b) >= len(places) or _apart(places[a], places[b]) != 1:
            limit = "a link joins two chips whose places differ by one column or one row"
            yield Diagnostic(subject, f"board.links has [{a}, {b}]", limit)
            return
    joined = None if links is None else {frozenset(pair) for pair in links}
    for a, start in enumerate(places):
        for b, end in enumerate(places):
            stops = [chip_at.get(place) for place in _path(start, end)]
            pairs = [frozenset(pair) for pair in pairwise(stops)]
            if None in stops or (joined is not None and not joined.issuperset(pairs)):
                found = f"spikes from chip {a} to chip {b} cross a chip or a link that does not exist"
                hint = "a spike goes along x first, then along y: give places and links for every such path"
                yield Diagnostic(subject, found, "a board holds the path between any two of its chips", hint)
                return


def _apart(a: tuple[int, int], b: tuple[int, int]) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _path(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Places from one chip to another, along x first."""
    (x0, y0), (x1, y1) = start, end
    along_x = [(x, y0) for x in range(x0, x1, 1 if x1 > x0 else -1)]
    along_y = [(x1, y) for y in range(y0, y1, 1 if y1 > y0 else -1)]
    return [*along_x, *along_y, end]
