"""Spike rates, read from a file or assumed. A rate is spikes per time step of one neuron or input element."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, FileError, UsageError, counted, did_you_mean, quoted
from nirbridge.files.npy import MEMBERS_MAX, UNREADABLE, header_of, open_archive, open_member
from nirbridge.network.model import Network, Population, Port

ASSUMED_RATE = 0.02
"""Spikes per neuron and time step where no rates are given: 20 spikes per second at a time step of 1 ms."""
ASSUMED_MISSED = "with --input DATA, energy is 0.5 to 13.3 times that in ten examples"
"""Error of the assumed rate on the networks of docs/profile.md."""
PROBLEMS_MAX = 20

SAVE_AGAIN = "save plain numbers with numpy.savez"

Rates = Mapping[str, Array]


def assumed_rates(network: Network, value: float = ASSUMED_RATE) -> tuple[Rates, str]:
    """The same rate for every input and every population that fires, and the sentence that says so.

    A readout never fires: 0, except where it drives another population with its value in every time step: 1.
    """
    inner = {p.source for p in network.projections if p.target not in {port.name for port in network.outputs}}
    drives = inner & {p.name for p in network.populations if not p.neuron.fires}
    rates = {port.name: freeze(np.float64(value)) for port in network.inputs}
    for population in network.populations:
        silent = 1.0 if population.name in drives else 0.0
        rates[population.name] = freeze(np.float64(value if population.neuron.fires else silent))
    sentence = f"assumed: {value:g} spikes per neuron and time step, inputs too"
    return MappingProxyType(rates), sentence + (
        "; readouts that drive others send in every time step" if drives else ""
    )


def read_rates(path: str | Path, network: Network, value: float = ASSUMED_RATE) -> tuple[Rates, str]:
    """Rates of a ``.npz`` file, and a sentence on which are given and which are assumed.

    The file holds one array per population or input, by name: spikes per time step, a scalar or of its shape.
    Populations that it does not name get ``assumed_rates``. Data is only read once its header has the right shape, so a
    file cannot make us read more than the network has neurons.

    Raises:
        FileError: not a readable .npz file, or an array of objects.
        UsageError: unknown names, wrong shapes, rates that are not finite, negative, or more than a neuron can fire.
    """
    path = Path(path)
    owners: dict[str, Port | Population] = {p.name: p for p in (*network.inputs, *network.populations)}
    rates, problems = _read(path, owners)
    more = len(problems) - PROBLEMS_MAX
    rest = [Diagnostic(_subject(path), f"{more:,} more problems like these")] if more > 0 else []
    UsageError.raise_all([*problems[:PROBLEMS_MAX], *rest])
    assumed, _ = assumed_rates(network, value)
    return MappingProxyType({**assumed, **rates}), _sentence(path, [n for n in owners if n not in rates], value)


def _sentence(path: Path, missing: list[str], value: float) -> str:
    sentence = f"given by {quoted(path.name)}"
    if not missing:
        return sentence
    shown = ", ".join(quoted(name) for name in missing[:5])
    rest = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return f"{sentence}; assumed for {shown}{rest}: {value:g} spikes per neuron and time step"


def _subject(path: Path, name: str | None = None) -> str:
    return f"rates file {quoted(path.name)}" + ("" if name is None else f", array {quoted(name)}")


def _read(path: Path, owners: Mapping[str, Port | Population]) -> tuple[dict[str, Array], list[Diagnostic]]:
    """Every usable array, and the problems of the others."""
    if not os.path.isfile(path):  # unlike Path.is_file, no exception for a name that is too long
        found = "not a regular file" if os.path.exists(path) else "no such file"
        raise FileError(Diagnostic(_subject(path), found, "rates are a .npz file of numpy", "give the path of one"))
    rates: dict[str, Array] = {}
    problems: list[Diagnostic] = []
    try:
        with open_archive(path) as archive:
            members = archive.infolist()
            if len(members) > MEMBERS_MAX:
                raise FileError(
                    Diagnostic(_subject(path), f"{len(members):,} arrays", f"at most {MEMBERS_MAX:,} are read")
                )
            for member in members:
                name = member.filename.removesuffix(".npy")
                array = _array(archive, member, _subject(path, name), owners.get(name), [*owners])
                if isinstance(array, Diagnostic):
                    problems.append(array)
                elif name in rates:
                    problems.append(Diagnostic(_subject(path, name), "occurs twice", "", "keep one of them"))
                else:
                    rates[name] = array
    except UNREADABLE as error:
        reason = quoted(str(error) or type(error).__name__)
        raise FileError(
            Diagnostic(_subject(path), f"cannot be read ({reason})", "", "write it with numpy.savez")
        ) from None
    return rates, problems


def _array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, subject: str, owner: Port | Population | None, names: list[str]
) -> Array | Diagnostic:
    """One array as float64, or its problem."""
    if owner is None:
        hint = did_you_mean(member.filename.removesuffix(".npy"), names)
        hint = hint or f"known: {', '.join(quoted(n) for n in names[:8])}"
        return Diagnostic(subject, "no population or input of that name", "", hint)
    with open_member(archive, member) as file:
        header = header_of(file)
        if header is None:
            return Diagnostic(subject, "not an array of plain numbers", "rates are real numbers", SAVE_AGAIN)
        if header.shape not in ((), owner.shape):
            limit = f"{quoted(owner.name)} has shape {owner.shape}"
            return Diagnostic(subject, f"shape {header.shape}", limit, "give one number, or one per neuron")
        data = file.read(header.bytes)
    if len(data) != header.bytes:
        raise ValueError("an array ends early")
    order = "F" if header.fortran else "C"
    values = np.frombuffer(data, header.dtype).reshape(header.shape, order=order).astype(np.float64)
    return _value_problem(subject, owner, values) or freeze(values)


def _value_problem(subject: str, owner: Port | Population, values: Array) -> Diagnostic | None:
    infinite = int(np.count_nonzero(~np.isfinite(values)))
    if infinite:
        return Diagnostic(subject, f"{counted(infinite, 'value')} not finite", "rates are numbers", SAVE_AGAIN)
    if values.size and values.min() < 0:
        return Diagnostic(
            subject, f"a rate of {values.min():g}", "rates are 0 or more spikes per time step", SAVE_AGAIN
        )
    most = owner.neuron.max_spikes if isinstance(owner, Population) and owner.neuron.fires else None
    if most is not None and values.size and values.max() > most:
        limit = f"a neuron of {quoted(owner.name)} fires at most {most:,} times per time step"
        return Diagnostic(
            subject, f"a rate of {values.max():g}", limit, "divide rates per second by time steps per second"
        )
    return None
