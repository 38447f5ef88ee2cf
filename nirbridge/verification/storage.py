"""Verifications as ``.npz`` files (docs/reference/verification-file.md): recordings, distances and bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge.arrays import Array
from nirbridge.comparison.distances import Decisions
from nirbridge.comparison.types import Comparison, ComparisonRow, SpikeDistances
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.files.npy import MAX_BYTES, RecordFormat, read_record, write_record
from nirbridge.network.storage.codec import ValueDecoder, ValueEncoder, fits
from nirbridge.simulators.recording import VARIABLES
from nirbridge.simulators.recording_file import check_meta
from nirbridge.simulators.types import Recording
from nirbridge.verification.bounds import LayerBound
from nirbridge.verification.verify import ComparedPair, Verification

FORMAT = RecordFormat(
    "nirbridge-verification",
    1,
    ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"),
    "a verification",
    "make one with nirbridge verify -o",
    "verify again",
)
_NOT_FINITE = ("nan", "inf", "-inf")
_ROW_NUMBERS, _LAYER_NUMBERS = ("first_values", "largest_difference"), ("bound", "seen")
_SPIKE_NUMBERS = ("van_rossum",)
_BY_NAME = {"latency": int, "left_out": str, "early_spikes": int, "proofs": str}
"""Mappings whose order counts: lists of pairs in the file, where keys of objects are sorted."""


def write_verification(verification: Verification, path: str | Path) -> str:
    """Write a verification, whole or not at all and the same bytes every time; return its digest.

    Raises:
        FileError: the place cannot be written.
    """
    return write_record(path, FORMAT, *verification_to_dict(verification))


def read_verification(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Verification:
    """A verification from a file that ``write_verification`` wrote.

    Raises:
        FileError: anything else: another kind of file, a damaged one, one that declares more than ``max_bytes``.
    """
    return read_record(path, FORMAT, _checked, max_bytes=max_bytes)


def verification_to_dict(verification: Verification) -> tuple[dict[str, Any], dict[str, Array]]:
    """(JSON record, arrays by name) of a verification; recordings that comparisons keep for pictures are left out."""
    encoder = ValueEncoder()
    others = {f.name: getattr(verification, f.name) for f in fields(verification) if f.name != "recordings"}
    others["pairs"] = [replace(pair, comparison=replace(pair.comparison, recordings=None)) for pair in others["pairs"]]
    others |= {name: list(others[name].items()) for name in _BY_NAME}
    record: dict[str, Any] = _as_text(encoder.plain(others))
    record["recordings"] = [_recording(way, each, encoder) for way, each in verification.recordings.items()]
    return record, encoder.arrays


def _recording(way: str, recording: Recording, encoder: ValueEncoder) -> dict[str, Any]:
    meta = json.loads(json.dumps(dict(recording.meta), default=_plain, allow_nan=False))
    arrays = [{"node": n, "variable": v, "values": encoder.plain(a)} for (n, v), a in recording.arrays.items()]
    return {"way": way, "meta": meta, "arrays": arrays}


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else dict(value)


def _as_text(value: Any) -> Any:
    """The record with numbers that JSON lacks as texts."""
    if isinstance(value, dict):
        return {key: _as_text(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# -- from a record -------------------------------------------------------------------------------------------------


def verification_from_dict(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> Verification:
    """The verification of a record. Raises KeyError, TypeError, ValueError for anything else."""
    decoder = ValueDecoder(arrays)
    stored = dict(record)
    return decoder.parts(
        Verification,
        stored,
        pairs=tuple(_pair(each, decoder) for each in record["pairs"]),
        layers=tuple(_with_numbers(decoder, LayerBound, each, _LAYER_NUMBERS) for each in record["layers"]),
        recordings=MappingProxyType({each["way"]: _stored_recording(each, decoder) for each in record["recordings"]}),
        **{name: _by_name(record.get(name, []), kind) for name, kind in _BY_NAME.items()},
        notes=_texts(record["notes"]),
    )


def _pair(record: Mapping[str, Any], decoder: ValueDecoder) -> ComparedPair:
    comparison = record["comparison"]
    rows = tuple(_row(each, decoder) for each in comparison["rows"])
    only = {name: tuple(_key(each) for each in comparison[name]) for name in ("only_a", "only_b")}
    notes = _texts(comparison["notes"])
    compared = decoder.parts(Comparison, comparison, rows=rows, **only, notes=notes, recordings=None)
    return decoder.parts(ComparedPair, record, comparison=compared, variables=_texts(record["variables"]))


def _row(record: Mapping[str, Any], decoder: ValueDecoder) -> ComparisonRow:
    decisions, spikes = record["decisions"], record["spikes"]
    parts = {
        "decisions": decisions and decoder.parts(Decisions, decisions),
        "spikes": spikes and _with_numbers(decoder, SpikeDistances, spikes, _SPIKE_NUMBERS),
    }
    return _with_numbers(decoder, ComparisonRow, record, _ROW_NUMBERS, **parts)


def _with_numbers(
    decoder: ValueDecoder, kind: Any, record: Mapping[str, Any], names: tuple[str, ...], **more: Any
) -> Any:
    """A dataclass of which some numbers may be NaN or infinite."""
    numbers = {name: _numbers(record[name]) for name in names}
    zeros = {name: _zeros(value) for name, value in numbers.items()}  # of the same form, which the decoder checks
    return replace(decoder.parts(kind, record, **zeros, **more), **numbers)


def _zeros(value: Any) -> Any:
    return tuple(map(_zeros, value)) if isinstance(value, tuple) else None if value is None else 0.0


def _numbers(value: Any) -> Any:
    """A number, two of them, or None."""
    if isinstance(value, list):
        first, second = value
        return _number(first), _number(second)
    return None if value is None else _number(value)


def _number(value: Any) -> float:
    if fits(value, float) or (isinstance(value, str) and value in _NOT_FINITE):
        return float(value)
    raise ValueError("a difference is no number")


def _stored_recording(record: Mapping[str, Any], decoder: ValueDecoder) -> Recording:
    if not isinstance(record["way"], str) or not isinstance(record["meta"], dict):
        raise TypeError("a recording has no name or no meta")
    check_meta(record["meta"], f"recording {quoted(record['way'])}")
    arrays = {}
    for each in record["arrays"]:
        array = decoder.value(each["values"], Array)
        if each["variable"] not in VARIABLES or not hasattr(array, "dtype"):
            raise ValueError(f"a recording has variable {each['variable']!r}")
        arrays[_key([each["node"], each["variable"]])] = array
    return Recording(MappingProxyType(arrays), MappingProxyType(record["meta"]))


def _key(record: Any) -> tuple[str, str]:
    node, variable = _texts(record)
    return node, variable


def _texts(record: Any) -> tuple[str, ...]:
    if not isinstance(record, list) or not all(isinstance(each, str) for each in record):
        raise ValueError("texts are expected")
    return tuple(record)


def _by_name(record: Any, kind: type) -> Mapping[str, Any]:
    pairs = dict(record) if isinstance(record, list) else {}
    if len(pairs) != len(record) or not all(isinstance(n, str) and fits(v, kind) for n, v in pairs.items()):
        raise ValueError("values by name are expected")
    return MappingProxyType(pairs)


def _checked(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> Verification:
    verification = verification_from_dict(record, arrays)
    ModelError.raise_all(_problems(verification))
    return verification


def _problems(verification: Verification) -> Iterator[Diagnostic]:
    """Parts that do not belong together."""
    ways = set(verification.recordings)
    if not verification.pairs or verification.steps < 0:
        yield Diagnostic("verification", "compares nothing")
    for pair in verification.pairs:
        for name in (pair.a, pair.b):
            if name not in ways:
                yield Diagnostic(f"way {quoted(name)}", "is compared, but was not recorded")
    if verification.early_spikes and not any(pair.b == "retimed" for pair in verification.pairs):
        yield Diagnostic("verification", "counts early spikes without the run that has them")
    rows = [row for pair in verification.pairs for row in pair.comparison.rows]
    for row in rows:
        yield from _row_problems(row)


def _row_problems(row: ComparisonRow) -> Iterator[Diagnostic]:
    """Counts that contradict each other in the comparison of a variable."""
    subject, spikes, d = f"comparison of {quoted(row.node)}", row.spikes, row.decisions
    if spikes is not None and min(spikes.common, spikes.either) < 0:
        yield Diagnostic("verification", "counts fewer than no spikes")
    if row.equal and row.first_step is not None:
        yield Diagnostic(subject, "is equal, with a first difference")
    if d is not None and (
        (d.right_a is None) != (d.right_b is None)
        or not all(0 <= count <= d.samples for count in (d.alike, d.right_a or 0, d.right_b or 0))
    ):
        yield Diagnostic(subject, "decisions that are not of its samples", "an accuracy is of both, or of none")
