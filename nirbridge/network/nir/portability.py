"""Portability of NIR graphs: differences between tools that plain NIR cannot express, and known exporter faults.

Tools and versions: (snntorch 1.0.0, norse 1.1.0, sinabs 3.1.3,
spikingjelly 2.0.0, rockpool 3.1.0, Lava and Nengo in the NIR paper).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nirbridge.errors import ExporterFaultWarning, ExportWarning, quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network
from nirbridge.network.neurons import EXTRAS, Neuron, extras_of
from nirbridge.network.nir.raise_linear import plain_bias

_SHOWN = 5

Rule = tuple[Callable[[Neuron], bool], str]
_CONVENTIONS: tuple[Rule, ...] = (
    (
        lambda n: n.fires and n.compare == ">",
        "a spike needs v > threshold: spikingjelly, Sinabs and Rockpool fire at v >= threshold",
    ),
    (
        lambda n: n.fires and n.compare == ">=",
        "a spike at v >= threshold: the NIR text, snnTorch and Norse need v > threshold",
    ),
    (
        lambda n: _is_stateful(n) and n.reset == "to-value",
        "reset to a value: Sinabs and Rockpool subtract the threshold",
    ),
    (
        lambda n: _is_stateful(n) and n.reset == "subtract",
        "reset by subtraction: the NIR text, Norse and Nengo reset to a value",
    ),
)
"""Points that plain NIR leaves open, which each tool settles in its own way for every file."""
_RULES: tuple[Rule, ...] = (
    *_CONVENTIONS,
    (lambda n: _is_stateful(n) and n.reset == "none", "no reset: every tool that reads plain NIR resets"),
    (
        lambda n: n.fires and n.max_spikes > 1,
        "several spikes per time step: all but Sinabs and Rockpool fire at most once",
    ),
    (lambda n: bool(np.any(n.refractory_steps > 0)), "a refractory period: plain NIR has none, and no tool reads it"),
    *(((lambda n, name=name: name in extras_of(n)), f"{x.noun}: {x.portability}") for name, x in EXTRAS.items()),
    (
        lambda n: bool(np.any(n.v_init != 0)) or bool(np.any(n.i_init != 0)),
        "an initial state: spikingjelly and Norse start at v_reset or v_leak, the others at 0",
    ),
    (lambda n: bool(np.any(n.a_mem < 0)) or bool(np.any(n.a_syn < 0)), "a negative decay: only Euler tools have it"),
)


_LOOP = "a loop is closed one time step later; Lava adds a time step on every edge"


def _is_stateful(n: Neuron) -> bool:
    return n.fires and bool(np.any(n.a_mem != 0))


def export_warnings(network: Network, *, as_read: bool = False) -> tuple[str, ...]:
    """One sentence per point that plain NIR leaves open and tools resolve differently; empty if there is none.

    ``as_read``: of the file that the network was read from, which need not state dt; False: of one that is written.
    """
    place = "is assumed, the file has none" if as_read and network.is_dt_assumed else "is kept in metadata only"
    return (f"dt = {network.dt:g} s {place}: other tools run the file with their own dt", *_warnings(network))


def _warnings(network: Network) -> Iterator[str]:
    for applies, text in _RULES:
        names = [p.name for p in network.populations if applies(p.neuron)]
        if names:
            yield f"{_listed(names)}: {text}"
    yield from _integrators(network)
    backs = [p.target for p in network.projections if p.is_back]
    if backs:
        yield f"{_listed(backs)}: {_LOOP}"
    delayed = [p.target for p in network.projections if p.max_delay_steps > int(p.is_back)]
    if delayed:
        yield f"{_listed(delayed)}: a Delay node on the way in: tools without delays refuse or drop it"
    lost = [
        p.target
        for p in network.projections
        if p.bias is not None and plain_bias(parts_of(p.operator), p.bias)[1] is None
    ]
    if lost:
        yield f"{_listed(lost)}: a constant input that no bias of a NIR node can express: other tools drop it"


def _integrators(network: Network) -> Iterator[str]:
    leaky = [p.name for p in network.populations if p.neuron.kind in ("LIF", "LI", "CubaLIF", "CubaLI")]
    if not leaky:
        return
    others = {
        "euler": "Nengo integrates exactly (zoh), Sinabs decays exponentially",
        "zoh": "snnTorch, Norse, spikingjelly and Lava integrate by Euler",
        "exponential": "snnTorch, Norse, spikingjelly and Lava integrate by Euler, Nengo exactly (zoh)",
    }
    integrator = str(network.timing.integrator)
    yield f"{_listed(leaky)}: integrator {integrator}: {others[integrator]}"


def _listed(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(quoted(n) for n in distinct[:_SHOWN])
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return f"population{'s' if len(distinct) > 1 else ''} {shown}{more}"


def warn_of_tools(texts: Sequence[str]) -> None:
    """One ``ExportWarning`` at the line of the user's code that saves the graph, of texts of ``export_warnings``.

    None where all of them are conventions that tools differ in for every file: no user can act on these.
    """
    beyond = [text for text in texts if not _is_convention(text)]
    if beyond:
        more = f", and {len(beyond) - 1} more in its metadata ('nirbridge:warnings')" if len(beyond) > 1 else ""
        warnings.warn(f"plain NIR cannot express {beyond[0]}{more}", ExportWarning, stacklevel=_levels())


def _is_convention(text: str) -> bool:
    """True for dt, the integrator, the comparison, the way of a reset, and the delay of a loop."""
    ends = (*(rule for _, rule in _CONVENTIONS), _LOOP)
    return text.startswith("dt = ") or ": integrator " in text or text.endswith(ends)


def warn_of_faults(sentences: Sequence[str]) -> None:
    """One ``ExporterFaultWarning`` for each sentence, at the line of the user's code that reads the file."""
    for sentence in sentences:
        warnings.warn(sentence, ExporterFaultWarning, stacklevel=_levels())


def _levels() -> int:
    """Stack level of the nearest caller outside nirbridge, for ``warnings.warn``."""
    levels, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "nirbridge":
        levels, frame = levels + 1, frame.f_back
    return levels
