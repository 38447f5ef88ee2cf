"""The proof in one picture and one sentence, and the resources of cores as bars with their limits."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.errors import counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Partition
from nirbridge.report.html.page import Section
from nirbridge.report.html.tags import (
    Child,
    Markup,
    Picture,
    bar,
    folded,
    joined,
    listed,
    picture,
    remark,
    scrolled,
    table,
    tag,
    text,
)
from nirbridge.report.map_facts import (
    as_full,
    core_name,
    core_rows,
    core_text,
    cores_with_most,
    fullest_of,
    percent,
    proof_text,
    resource_rows,
)
from nirbridge.report.pictures.bar_pictures import ProofBar, ProofPicture, proof_picture

_LABEL, _BAR, _LINE = 250.0, 620.0, 26.0


def proof_section(value: MappedNetwork | Partition) -> Section:
    """Cores found, bounds, gap, and the bound that decides."""
    proof = proof_picture(value)
    report = (value.partition if isinstance(value, MappedNetwork) else value).report
    rows = [[bar.label, f"{bar.cores:,}", "decides" if bar.decides else ""] for bar in proof.bars]
    more: list[Child] = [
        scrolled(proof_drawing(proof), "Proof"),
        folded("Bounds as a table", table("Cores and lower bounds", ["", "cores", ""], rows, "lrl")),
    ]
    if isinstance(value, MappedNetwork):
        more.append(listed(proof_text(value)))
    more.append(remark(f"Found by {report.method} with {report.solver}, seed {report.seed}."))
    return Section("proof", "Proof", f"{proof.sentence[0].upper()}{proof.sentence[1:]}.", more)


def proof_drawing(proof: ProofPicture) -> Picture:
    """Bars of the cores found and of the lower bounds, the bound that decides, and the gap."""
    most = max((each.cores for each in proof.bars), default=1) or 1
    height = len(proof.bars) * _LINE + 34
    found = next((each.cores for each in proof.bars if each.kind == "found"), most)
    bound = found - proof.gap
    inner: list[Child] = []
    if proof.gap > 0:
        left, right = (_LABEL + _BAR * cores / most for cores in (bound, found))
        inner.append(tag("rect", x=left, y=0.0, width=right - left, height=height - 30, class_="gap"))
        inner.append(
            text(
                min((left + right) / 2, _LABEL + _BAR),
                height - 16,
                f"gap {counted(proof.gap, 'core')}",
                anchor="middle",
            )
        )
    edge = _LABEL + _BAR * found / most
    inner.append(tag("path", d=f"M{edge:.2f} 0V{height - 30}", class_="found-line"))
    for line, each in enumerate(proof.bars):
        inner.append(_bar(each, line, _BAR * each.cores / most, edge))
    label = "; ".join(f"{each.label} {each.cores:,}{', decides' if each.decides else ''}" for each in proof.bars)
    return picture(_LABEL + _BAR + 120, height, inner, label=label, class_="proof")


def _bar(each: ProofBar, line: int, width: float, edge: float) -> Markup:
    y = line * _LINE
    kind = "found" if each.kind == "found" else "decides" if each.decides else "bound"
    said = f"{each.cores:,}" + (" decides" if each.decides else "")
    after = _LABEL + width + 6
    if after < edge < after + 7.6 * len(said) + 4:  # beyond the line of the cores found, which would cross the text
        after = edge + 6
    parts = (
        text(_LABEL - 8, y + 17, each.label, anchor="end", class_="strong" if kind != "bound" else None),
        tag("rect", x=_LABEL, y=y + 4, width=max(width, 1.0), height=18.0, class_=f"bar-{kind}"),
        text(after, y + 17, said, class_="strong" if kind != "bound" else None),
    )
    return tag("g", joined(parts))


def resources_section(mapped: MappedNetwork) -> Section:
    """Every resource: the fullest core and the mean as a bar, with the limit of a core."""
    rows = resource_rows(mapped)
    fullest = fullest_of(mapped)
    lead = "The chip limits no resource of a core."
    if fullest is not None:
        core = core_text(fullest.cores[0], mapped)
        lead = f"The limiting resource is {fullest.words}: {core} uses {fullest.used}{as_full(fullest.cores)}."
    said = (
        "Bars show the fullest core, ticks the mean of the used cores, the end of a track the limit of a core"
        f"{'; ~ marks limits that are not public' * any(row.is_approximate and row.limit for row in rows)}."
    )
    headings = ["resource", "fullest core", "used there", "limit of a core", "share", "", "all cores"]
    body = table("Resources", headings, _rows(mapped, fullest.resource if fullest else ""), "llrrrlr")
    return Section("resources", "Resources", lead, (body, remark(said)))


def _rows(mapped: MappedNetwork, fullest: str) -> Iterator[list[Child]]:
    cores = max(1, len(core_rows(mapped)))
    for row in resource_rows(mapped):
        mean = row.total / cores / row.limit if row.limit else None
        limit = "not limited" if row.limit is None else f"{'~' * row.is_approximate}{row.limit:,}"
        share = "" if row.share is None else percent(row.share)
        says = "" if row.share is None else f"fullest core {row.share:.0%}, mean {mean or 0:.0%} of the limit"
        name = row.name.replace("_", " ")
        drawn = bar(row.share, mean=mean, says=f"{name}: {says}", full=row.name == fullest)
        yield [name, _where(mapped, row.name), f"{row.most:,}", limit, share, drawn, f"{row.total:,}"]


def _where(mapped: MappedNetwork, resource: str) -> str:
    """The first of the cores that use most, and how many others do."""
    cores = cores_with_most(mapped, resource)
    if not cores:
        return "-"
    return core_name(cores[0], mapped) + (f" and {len(cores) - 1:,} more" if len(cores) > 1 else "")
