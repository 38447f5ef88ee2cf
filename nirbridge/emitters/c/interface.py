"""Macros of a header (ports, sizes, scales, costs), and its small functions of events and counts.

Names of the model become identifiers of letters, digits and underscores, and strings with escapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge._version import __version__
from nirbridge.emitters.c.costs import latencies
from nirbridge.emitters.c.options import COptions
from nirbridge.emitters.c.outputs import direct_outputs
from nirbridge.emitters.c.plan import FLOAT, CPlan, Neurons, Source, Summed
from nirbridge.emitters.c.synapses import sent_text
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Identity, Reshape
from nirbridge.quantization.model import FixedInput, FixedNeuron

LABEL_MAX = 40
NAME_MAX = 500
"""Bytes of a name that becomes a string: compilers of C99 take literals of 4,095."""


def labels(names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Names as parts of identifiers, in lower case and all different; ids where names leave none."""
    found = [re.sub("[^a-z0-9]+", "_", name.lower())[:LABEL_MAX].strip("_") for name in names]
    found = [label if label and found.count(label) == 1 else id for label, id in zip(found, ids, strict=True)]
    return found if len({*found}) == len(found) else list(ids)


def input_labels(plan: CPlan) -> list[str]:
    """Labels of the inputs, in order."""
    return labels([p.name for p in plan.model.inputs], [s.id for s in plan.inputs])


def output_labels(plan: CPlan) -> list[str]:
    """Labels of the outputs, in order."""
    ports = plan.model.outputs
    return labels([p.name for p in ports], [f"out{k}" for k in range(len(ports))])


def shown_as(plan: CPlan, port: Port) -> Summed | None:
    """The population or the sums whose values are those of an output, one by one; None: the host computes them."""
    if isinstance(plan.model, Network):
        name = direct_outputs(plan.model).get(port.name, port.name)
        return next(n for n in (*plan.shown, *plan.outputs) if n.name == name)
    reads = [read for read in plan.quantized.reads if read.target == port.name]
    if len(reads) != 1 or not _is_plain(reads[0]):
        return None
    return next((n for n in plan.shown if n.population.name == reads[0].source), None)


def _is_plain(read: Projection) -> bool:
    has_delay = bool(read.delay_steps.any() or read.target_delay_steps.any())
    return isinstance(read.operator, Identity | Reshape) and read.bias is None and not has_delay


def function_names(plan: CPlan) -> dict[str, dict[str, str]]:
    """The functions of each input and output by the name of the port, with ``nb_``."""
    found: dict[str, dict[str, str]] = {"inputs": {}, "outputs": {}}
    for port, source, label in zip(plan.model.inputs, plan.inputs, input_labels(plan), strict=True):
        found["inputs"][port.name] = f"nb_{'spike' if source.is_binary else 'value'}{_end(plan.inputs, label)}"
    for port, label in zip(plan.model.outputs, output_labels(plan), strict=True):
        if shown_as(plan, port) is not None:
            found["outputs"][port.name] = _end(plan.model.outputs, label)
    return found


def _end(ports: Sequence[object], label: str) -> str:
    return f"_{label}" if len(ports) > 1 else ""


# -- macros --------------------------------------------------------------------------------------------------------


def macros(plan: CPlan, options: COptions, about: Mapping[str, Any], digest: str) -> str:
    """Definitions for the preprocessor; ``about``: costs of the manifest; ``digest``: of the network."""
    flash, ram = about["costs"]["flash_bytes"], about["costs"]["ram_bytes"]
    bytes_ = flash["tables"] + flash["code_estimated"]
    lines = [
        f'#define NB_VERSION "{__version__}" /* of nirbridge, which made this */',
        f'#define NB_DIGEST "{digest}" /* SHA-256 of {"program.json" if plan.is_real else "network.q.npz"} */',
        f"#define NB_DT_S {_real(plan.model.dt)} /* seconds of a time step */",
        f"#define NB_INPUTS {len(plan.inputs)}",
        f"#define NB_OUTPUTS {len(plan.model.outputs)}",
        f"#define NB_POPULATIONS {len(plan.neurons)}",
        f"#define NB_RAM_BYTES {ram['nb_model']} /* of one nb_model */",
        f"#define NB_STACK_BYTES {about['costs']['stack_bytes_estimated']} /* nb_step needs less on a Cortex-M4 */",
        f"#define NB_FLASH_BYTES {bytes_} /* {flash['tables']} of tables, and an estimate of code at -Os */",
    ]
    lines, first, start = [options.renamed(line) for line in lines], 0, options.renamed("NB_")
    for port, source, label in zip(plan.model.inputs, plan.inputs, input_labels(plan), strict=True):
        lines += _of_input(port, source, f"{start}INPUT_{label.upper()}", first)
        first += source.size
    for port, label in zip(plan.model.outputs, output_labels(plan), strict=True):
        lines += _of_output(plan, port, f"{start}OUTPUT_{label.upper()}")
    return "\n".join(lines)


def _of_input(port: Port | FixedInput, source: Source, name: str, first: int) -> Iterator[str]:
    takes = "real numbers, 1 for a spike" if source.type == FLOAT else "spikes, 0 or 1"
    if isinstance(port, FixedInput) and port.graded:
        takes = f"whole numbers from -{port.value_max} to {port.value_max}"
    yield f"\n/* Input {source.id}: {takes}. */"
    yield from _named(name, port.name)
    yield from _shaped(name, source.id, port.shape)
    yield f"#define {name}_FIRST {first} /* its first index among those of all inputs */"
    if isinstance(port, FixedInput) and port.graded:
        yield f"#define {name}_MAX {port.value_max}"
        yield f"#define {name}_SCALE {_real(port.scale)} /* the real value of 1 */"


def _of_output(plan: CPlan, port: Port, name: str) -> Iterator[str]:
    n = shown_as(plan, port)
    if n is None:
        yield "\n/* Output that a host computes, as README.md says. */"
    else:
        yield f"\n/* Output {n.id}: {_sends(n)}. */"
    yield from _named(name, port.name)
    yield f"#define {name}_LATENCY {latencies(plan).get(port.name, 0)} /* time steps */"
    if n is not None:
        yield from _shaped(name, n.id, port.shape)
        neuron = _integers(n)
        if neuron is not None and not neuron.fires and _has_one_scale(neuron):
            yield f"#define {name}_SCALE {_real(1 / np.min(neuron.scale))} /* the real value of 1 */"
            yield f"#define {name}_OFFSET {_real(np.min(neuron.v_offset))} /* to be added in reals */"


def _sends(n: Summed) -> str:
    if isinstance(n, Neurons):
        return "spikes" if n.population.neuron.fires else "potentials"
    return "sums"


def _integers(n: Summed) -> FixedNeuron | None:
    """Its neurons in integers, whose potentials have a scale."""
    neuron = n.population.neuron if isinstance(n, Neurons) else None
    return neuron if isinstance(neuron, FixedNeuron) else None


def _named(name: str, port: str) -> Iterator[str]:
    data = port.encode("utf-8", "surrogatepass")
    if len(data) <= NAME_MAX:
        yield f"#define {name}_NAME {c_string(data)}"


def _shaped(name: str, id: str, shape: Shape) -> Iterator[str]:
    yield f"#define {name}_FIELD {id}"
    yield f"#define {name}_SIZE {math.prod(shape)}"
    yield f"#define {name}_SHAPE {{{', '.join(map(str, shape or (1,)))}}}"


def c_string(data: bytes) -> str:
    """A literal of these bytes: printable ASCII as it is but for quotes, backslashes and what starts trigraphs."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in data) + '"'


def _real(value: float) -> str:
    text = repr(float(value))
    return text if "." in text or "e" in text else f"{text}.0"


def _has_one_scale(neuron: FixedNeuron) -> bool:
    return all(np.ptp(x) == 0 for x in (neuron.scale, neuron.v_offset))


# -- functions -----------------------------------------------------------------------------------------------------


def functions(plan: CPlan, has_selftest: bool) -> str:
    """Small functions of the header, with ``nb_``; a program that does not call one does not have it."""
    names, lines = function_names(plan), []
    for port, source in zip(plan.model.inputs, plan.inputs, strict=True):
        lines += _event(port, source, names["inputs"][port.name])
    for port in plan.model.outputs:
        n = shown_as(plan, port)
        if n is not None:
            lines += _count(n, names["outputs"][port.name])
            lines += _argmax(n, names["outputs"][port.name])
    if has_selftest:
        lines.append("\n/* 0, or the number, from 1, of the first time step that differs. Changes the state. */")
        lines.append("uint32_t nb_selftest(nb_model *m);")
    return "\n".join([*lines, ""])


def _event(port: Port | FixedInput, source: Source, name: str) -> Iterator[str]:
    kind = source.type if source.type in ("int64_t", FLOAT) else "int32_t"
    value, slot = "" if source.is_binary else f", {kind} value", sent_text(source)
    clipped = ", clipped to its range," if isinstance(port, FixedInput) else ""
    what = "A spike" if source.is_binary else "A value"
    what += f" of an element of {source.id}{'' if source.is_binary else clipped}"
    yield f"\n/* {what} in the next time step, nb_step(m, NULL). */"
    yield f"static inline void {name}(nb_model *m, uint32_t index{value})"
    yield "{"
    if not source.slots:
        names = ["m", "index", *([] if source.is_binary else ["value"])]
        yield from (f"    (void){name}; /* nothing reads this input */" for name in names)
    elif not source.is_binary:
        yield f"    if (index < {source.size}u)"
        value = "value"
        if isinstance(port, FixedInput):
            most = port.value_max
            value = f"({source.type})((value < -{most}) ? -{most} : ((value > {most}) ? {most} : value))"
        yield f"        {slot}[index] = {value};"
    else:
        yield f"    if (index < {source.size}u)"
        yield f"        {slot}[index / 32u] |= UINT32_C(1) << (index % 32u);"
    yield "}"


def _count(n: Summed, end: str) -> Iterator[str]:
    if _sends(n) != "spikes":
        return
    yield f"\n/* Adds the spikes of {n.id} in the last time step to counts[{n.source.size}]. */"
    yield f"static inline void nb_count{end}(const nb_model *m, uint32_t *counts)"
    yield "{"
    yield f"    for (uint32_t i = 0; i < {n.source.size}u; ++i)"
    yield f"        const uint32_t spikes = (uint32_t)m->out.{n.id}[i];"  # gcc warns of a sum with the cast in it
    yield ""
    yield "        counts[i] += spikes;"
    yield "}"


def _argmax(n: Summed, end: str) -> Iterator[str]:
    neuron, sends_spikes = _integers(n), _sends(n) == "spikes"
    if neuron is not None and not sends_spikes and not _has_one_scale(neuron):
        return
    kind, what = ("uint32_t", f"counts[{n.source.size}]") if sends_spikes else (n.source.type, f"out.{n.id}")
    yield f"\n/* The index of the largest value of {what}, the first one of equals. */"
    yield f"static inline uint32_t nb_argmax{end}(const {kind} *values)"
    yield "{"
    yield "    uint32_t best = 0;"
    yield ""
    yield f"    for (uint32_t i = 1; i < {n.source.size}u; ++i)"
    yield "        if (values[i] > values[best])"
    yield "            best = i;"
    yield "    return best;"
    yield "}"
