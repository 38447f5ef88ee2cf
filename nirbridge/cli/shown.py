"""What ``show`` and ``inspect`` print of a file of any kind: one screen, whichever of the two is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nirbridge import pipeline
from nirbridge.cli.common import summary, summary_lines
from nirbridge.cli.output import is_quiet, is_verbose, print_result
from nirbridge.errors import counted, quoted

if TYPE_CHECKING:
    from nirbridge.pipeline.kinds import Kind
    from nirbridge.pipeline.saved_files import SavedFile


def show_file(path: str, kind: Kind, *, as_json: bool) -> None:
    """Prints a file of any kind but a model, as text or as one JSON document. Raises FileError."""
    about = {"file": Path(path).name, "kind": kind}
    if kind == "table":
        from nirbridge.sweeps.saved_tables import read_saved_table, saved_table_text

        table = read_saved_table(path)
        content = {"table": table.kind, "facts": dict(table.facts), "rows": list(table.rows)}
        print_result(about | content if as_json else saved_table_text(table))
        return
    saved = pipeline.load_saved(path)
    print_result(about | document(saved) if as_json else text_of(saved, path))


def document(saved: SavedFile) -> dict[str, Any]:
    """Content of the file as JSON."""
    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.map_text import saved_map_document

        return saved_map_document(value)
    if saved.kind in ("model", "network"):
        from nirbridge.report.inspect import inspect_network

        return inspect_network(value)
    if saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_document

        return quantize_document(value)
    if saved.kind == "verification":
        from nirbridge.report.compare import verify_document

        return verify_document(value)
    if saved.kind == "chip":
        return value.record
    if saved.kind == "events":
        return pipeline.describe_events(value)
    return {"program": _program, "module": _module, "page": _page}.get(saved.kind, summary)(value)


def text_of(saved: SavedFile, path: str = "") -> Any:
    """Content of the file as text: lines, or tables made with rich."""
    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.map_text import saved_map_text

        return saved_map_text(value, notes=not is_quiet(), every=is_verbose())
    if saved.kind in ("model", "network"):
        from nirbridge.report.inspect import inspect_network, inspect_text

        return inspect_text(inspect_network(value), notes=not is_quiet(), verbose=is_verbose())
    if saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_text

        return quantize_text(value, notes=not is_quiet(), every=is_verbose())
    if saved.kind == "verification":
        from nirbridge.report.compare import verify_text

        return verify_text(value, notes=not is_quiet(), every=is_verbose())
    if saved.kind == "chip":
        from nirbridge.report.chips import chip_table

        return chip_table(value)
    if saved.kind == "events":
        return _event_lines(value)
    lines = {"program": _program_lines, "module": _module_lines, "page": _page_lines}.get(saved.kind)
    return summary_lines(value, "see --verbose") if lines is None else lines(value, path)


def _event_lines(value: Any) -> list[str]:
    """Events, their length and the sensor; of NIR's data each observable."""
    facts = pipeline.describe_events(value)
    if "nodes" not in facts:
        return [f"{facts['format']}: {_event_line(facts)}"]
    lines = [f"{facts['format']}: {counted(len(facts['nodes']), 'node')}"]
    each = [(node, name, one) for node, group in facts["nodes"].items() for name, one in group.items()]
    lines += [f"  {quoted(node)} {quoted(name)[1:-1]}: {_event_line(one)}" for node, name, one in each[:_SHOWN]]
    return [*lines, *([f"  {len(each) - _SHOWN:,} more"] if len(each) > _SHOWN else [])]


def _event_line(facts: Mapping[str, Any]) -> str:
    if "dt_s" in facts:
        size = ", ".join(counted(facts[key], noun) for key, noun in (("samples", "sample"), ("steps", "time step")))
        return (
            f"{size} of {facts['dt_s']:g} s, {counted(facts['neurons'], 'neuron')}, {facts['nonzero']:,} values not 0"
        )
    span = f" from {facts['first_s']:g} s to {facts['last_s']:g} s" if facts["events"] else ""
    sensor = facts["sensor"] or [n + 1 for n in facts["largest"]]
    size = f"{'sensor of' if facts['sensor'] else 'places up to'} {' x '.join(f'{n:,}' for n in sensor)}"
    samples = f", {counted(facts['samples'], 'sample')}" if facts.get("samples") else ""
    polarity = f", {facts['on']:,} of polarity 1" if "on" in facts else ""
    left = "".join(f", {name} left out: {count:,}" for name, count in facts.get("left_out", {}).items() if count)
    return f"{counted(facts['events'], 'event')}{span}, {size}{polarity}{samples}{left}"


# -- programs, modules, pages --------------------------------------------------------------------------------------

_SHOWN = 60
"""Files of a program, and dialects of a module, that are listed."""
_OPERATION = re.compile(r"^\s*(?:[%\w, :#]+ = )?\"?([a-z_]+)\.[a-z_.]+", re.MULTILINE)
_HEADING = re.compile(r"<h2[^>]*>([^<]{1,80})</h2>")
_TITLE = re.compile(r"<title>([^<]{1,200})</title>")


def _program(program: Any) -> dict[str, Any]:
    """The facts of the manifest; the files with their bytes instead of their digests."""
    files = {name: len(data) for name, data in program.files.items()}
    return pipeline.program_manifest(program) | {"digest": program.digest, "files": files}


def _program_lines(program: Any, path: str) -> list[str]:
    facts = _program(program)
    lines = [
        f"program for {quoted(facts['kind'])[1:-1]}: {counted(len(facts['files']), 'file')}",
        f"digest {facts['digest']}",
    ]
    if pipeline.can_run(facts["kind"]):
        lines.append(f"run with: nirbridge run {path} --input IN.npy -o OUT.npz")
    notes = facts.get("notes", [])
    lines += [] if is_quiet() or not isinstance(notes, list) else [quoted(note, 500)[1:-1] for note in notes]
    files = {quoted(name)[1:-1]: f"{size:,}" for name, size in list(facts["files"].items())[:_SHOWN]}
    wide, long = (max(map(len, texts), default=0) for texts in (files, files.values()))
    return [*lines, *(f"  {name:<{wide}}  {size:>{long}} bytes" for name, size in files.items())]


def _module(text: str) -> dict[str, Any]:
    dialects: dict[str, int] = {}
    for name in _OPERATION.findall(text):
        dialects[name] = dialects.get(name, 0) + 1
    return {"lines": text.count("\n"), "operations": dict(sorted(dialects.items(), key=lambda item: -item[1]))}


def _module_lines(text: str, path: str) -> list[str]:
    del path
    facts = _module(text)
    counts = ", ".join(f"{name} {count:,}" for name, count in list(facts["operations"].items())[:_SHOWN])
    return [f"MLIR module: {counted(facts['lines'], 'line')}", f"operations by dialect: {counts or 'none'}"]


def _page(text: str) -> dict[str, Any]:
    title = _TITLE.search(text)
    return {"title": "" if title is None else title[1], "sections": _HEADING.findall(text), "bytes": len(text.encode())}


def _page_lines(text: str, path: str) -> list[str]:
    facts = _page(text)
    sections = ", ".join(quoted(name)[1:-1] for name in facts["sections"])
    lines = [f"report on {quoted(facts['title'])[1:-1]}", f"sections: {sections or 'none'}"]
    return [*lines, f"open it in a browser: {path}"]
