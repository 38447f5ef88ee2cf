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
from nirbridge.arrays import Array
from nirbridge.emitters.c.options import COptions
from nirbridge.emitters.c.plan import CPlan, Neurons, Source
from nirbridge.emitters.c.render import history_slot
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Identity, Reshape
from nirbridge.quantization.model import FixedInput

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
    return labels([p.name for p in plan.quantized.inputs], [s.id for s in plan.inputs])


def output_labels(plan: CPlan) -> list[str]:
    """Labels of the outputs, in order."""
    ports = plan.quantized.outputs
    return labels([p.name for p in ports], [f"out{k}" for k in range(len(ports))])


def shown_as(plan: CPlan, port: Port) -> Neurons | None:
    """The population whose values are those of an output, element by element; None: the host computes them."""
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
    for port, label in zip(plan.quantized.inputs, input_labels(plan), strict=True):
        found["inputs"][port.name] = f"nb_{'value' if port.graded else 'spike'}{_end(plan.inputs, label)}"
    for port, label in zip(plan.quantized.outputs, output_labels(plan), strict=True):
        if shown_as(plan, port) is not None:
            found["outputs"][port.name] = _end(plan.quantized.outputs, label)
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
        f'#define NB_DIGEST "{digest}" /* SHA-256 of network.q.npz */',
        f"#define NB_DT_S {_real(plan.quantized.dt)} /* seconds of a time step */",
        f"#define NB_INPUTS {len(plan.inputs)}",
        f"#define NB_OUTPUTS {len(plan.quantized.outputs)}",
        f"#define NB_POPULATIONS {len(plan.neurons)}",
        f"#define NB_RAM_BYTES {ram['nb_model']} /* of one nb_model */",
        f"#define NB_FLASH_BYTES {bytes_} /* {flash['tables']} of tables, and an estimate of code at -Os */",
    ]
    lines, first, start = [options.renamed(line) for line in lines], 0, options.renamed("NB_")
    for port, source, label in zip(plan.quantized.inputs, plan.inputs, input_labels(plan), strict=True):
        lines += _of_input(port, source, f"{start}INPUT_{label.upper()}", first)
        first += source.size
    for port, label in zip(plan.quantized.outputs, output_labels(plan), strict=True):
        lines += _of_output(plan, port, f"{start}OUTPUT_{label.upper()}")
    return "\n".join(lines)


def _of_input(port: FixedInput, source: Source, name: str, first: int) -> Iterator[str]:
    takes = f"whole numbers from -{port.value_max} to {port.value_max}" if port.graded else "spikes, 0 or 1"
    yield f"\n/* Input {source.id}: {takes}. */"
    yield from _named(name, port.name)
    yield from _shaped(name, source.id, port.shape)
    yield f"#define {name}_FIRST {first} /* its first index in main.c */"
    if port.graded:
        yield f"#define {name}_MAX {port.value_max}"
        yield f"#define {name}_SCALE {_real(port.scale)} /* the real value of 1 */"


def _of_output(plan: CPlan, port: Port, name: str) -> Iterator[str]:
    n = shown_as(plan, port)
    if n is None:
        yield "\n/* Output that a host computes, as README.md says. */"
    else:
        yield f"\n/* Output {n.id}: {'spikes' if n.population.neuron.fires else 'potentials'}. */"
    yield from _named(name, port.name)
    yield f"#define {name}_LATENCY {plan.quantized.latency.get(port.name, 0)} /* time steps */"
    if n is not None:
        yield from _shaped(name, n.id, port.shape)
        if not n.population.neuron.fires and _is_one(n.population.neuron.scale, n.population.neuron.v_offset):
            yield f"#define {name}_SCALE {_real(1 / _one(n.population.neuron.scale))} /* the real value of 1 */"
            yield f"#define {name}_OFFSET {_real(_one(n.population.neuron.v_offset))} /* to be added in reals */"


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


def _is_one(*values: Array) -> bool:
    return all(bool((np.asarray(x) == np.asarray(x).flat[0]).all()) for x in values)


def _one(values: Array) -> float:
    return float(np.asarray(values).flat[0])


# -- functions -----------------------------------------------------------------------------------------------------


def functions(plan: CPlan, has_selftest: bool) -> str:
    """Small functions of the header, with ``nb_``; a program that does not call one does not have it."""
    names, lines = function_names(plan), []
    for port, source in zip(plan.quantized.inputs, plan.inputs, strict=True):
        lines += _event(port, source, names["inputs"][port.name])
    for port in plan.quantized.outputs:
        n = shown_as(plan, port)
        if n is not None:
            lines += _count(n, names["outputs"][port.name])
            lines += _argmax(n, names["outputs"][port.name])
    if has_selftest:
        lines.append("\n/* 0, or the number, from 1, of the first time step that differs. Changes the state. */")
        lines.append("uint32_t nb_selftest(nb_model *m);")
    return "\n".join([*lines, ""])


def _event(port: FixedInput, source: Source, name: str) -> Iterator[str]:
    kind = "int64_t" if source.type == "int64_t" else "int32_t"
    value, slot = f", {kind} value" if port.graded else "", history_slot(source)
    what = f"A value of an element of {source.id}, clipped to its range," if port.graded else "A spike of an element of"
    what = what if port.graded else f"{what} {source.id}"
    yield f"\n/* {what} in the next time step, nb_step(m, NULL). */"
    yield f"static inline void {name}(nb_model *m, uint32_t index{value})"
    yield "{"
    if not source.slots:
        yield f"    (void)m, (void)index{', (void)value' * port.graded}; /* nothing reads this input */"
    elif port.graded:
        most = port.value_max
        yield f"    if (index < {source.size}u)"
        clipped = f"value < -{most} ? -{most} : value > {most} ? {most} : value"
        yield f"        {slot}[index] = ({source.type})({clipped});"
    else:
        yield f"    if (index < {source.size}u)"
        yield f"        {slot}[index / 32u] |= UINT32_C(1) << (index % 32u);"
    yield "}"


def _count(n: Neurons, end: str) -> Iterator[str]:
    if not n.population.neuron.fires:
        return
    yield f"\n/* Adds the spikes of {n.id} in the last time step to counts[{n.source.size}]. */"
    yield f"static inline void nb_count{end}(const nb_model *m, uint32_t *counts)"
    yield "{"
    yield f"    for (uint32_t i = 0; i < {n.source.size}u; ++i) {{"
    yield f"        const uint32_t spikes = (uint32_t)m->out.{n.id}[i];"
    yield ""
    yield "        counts[i] += spikes;"
    yield "    }"
    yield "}"


def _argmax(n: Neurons, end: str) -> Iterator[str]:
    neuron = n.population.neuron
    if not neuron.fires and not _is_one(neuron.scale, neuron.v_offset):
        return
    kind, what = ("uint32_t", f"counts[{n.source.size}]") if neuron.fires else (n.out_type, f"out.{n.id}")
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
