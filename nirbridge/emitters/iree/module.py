"""The module of a network that IREE compiles, from either source, and a check of the operations in it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.iree.tool import TOOL
from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.ports import (
    PlannedState,
    ProgramNames,
    Variables,
    identifiers,
    integer_names,
    planned_states,
    real_names,
)
from nirbridge.errors import ModelError, quoted
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.files.regular import template_bytes
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network
from nirbridge.program.step import step_program
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Key

DIALECTS = ("arith", "builtin", "func", "linalg", "math", "scf", "stablehlo", "tensor")
"""Dialects whose operations reach the compiler: it ends with a fault on an operation that it does not know."""
_OPERATION = re.compile(r'^\s*(?:%[\w:#]+(?:,\s*%[\w:#]+)*\s*=\s*)?"?([a-z_]\w*)\.([\w.]+)"?[ (<{@]', re.MULTILINE)
STABLEHLO = Path(__file__).with_name("templates") / "stablehlo.py.txt"
VARIABLES = ("s", "u", "v")


@dataclass(frozen=True, slots=True, eq=False)
class IreeModule:
    """MLIR with one function from inputs and states to results and states.

    ``inputs``: (key, type) in the order of its arguments, each ``[steps, batch, *shape]``. ``results``: keys of
    ``[steps, batch, *shape]``. ``states``: their values before the first time step. ``parts``: what these are, as of
    ``SimulationState``; None of StableHLO. ``steps``: None where the function takes any number of time steps.
    """

    text: str
    function: str
    batch: int
    steps: int | None
    inputs: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    states: tuple[Array, ...]
    parts: tuple[Key, ...] | None = None

    def facts(self) -> Mapping[str, Any]:
        """What ``run.py`` needs to know, as plain JSON."""
        return {
            "function": self.function,
            "batch": self.batch,
            "steps": self.steps,
            "inputs": self.inputs,
            "results": self.results,
            "states": len(self.states),
        }


def program_names(model: Network | QuantizedNetwork, dtype: str, more: Mapping[str, Any]) -> ProgramNames:
    """The names of a program; a variable of population ``p0`` is ``p0.v``. ``more``: further facts."""
    ids = identifiers(model)
    keys: Variables = {p.name: {v: f"{ids[p.name]}.{v}" for v in VARIABLES} for p in model.populations}
    names = integer_names(model, keys) if isinstance(model, QuantizedNetwork) else real_names(model, keys, dtype)
    return ProgramNames(names.inputs, names.nodes, names.outputs, {**names.facts, **more})


def module_states(model: Network | QuantizedNetwork, module: IreeModule, dtype: str) -> tuple[PlannedState, ...] | None:
    """The parts of the state by the number of the argument that has it; None where the module does not name them."""
    if module.parts is None:
        return None
    causal = in_causal_order(model) if isinstance(model, Network) else model
    into: dict[str, list[int]] = {}
    for k, p in enumerate(causal.projections):
        into.setdefault(p.target, []).append(k)
    numbers = (into[p.target].pop(0) for p in model.projections)  # within a target the order is the same
    names = {f"past of projection {k}": f"past of projection {number}" for k, number in enumerate(numbers)}
    ids = {(node, names.get(part, part)): f"state{k}" for k, (node, part) in enumerate(module.parts)}
    found = planned_states(causal, step_program(causal), dtype)
    return tuple(replace(state, id=ids.get((state.name, state.part), "")) for state in found)


def default_records(model: Network | QuantizedNetwork) -> tuple[Key, ...]:
    """Variables that a recording of the outputs is made of: of integers the host computes them."""
    if isinstance(model, Network):
        return ()
    sends = {p.name: "s" if p.neuron.fires else "v" for p in model.populations}
    return tuple(sorted({(read.source, sends[read.source]) for read in model.reads if read.source in sends}))


def linalg_module(
    model: Network | QuantizedNetwork, names: ProgramNames, options: Mapping[str, Any], records: Sequence[Key]
) -> IreeModule:
    """The module of our own lowering, for any number of time steps; ``options`` as of ``options_record``.

    Raises:
        ToolMissing: xDSL is not installed.
        ModelError: a network that the dialect does not take.
    """
    from nirbridge.dialect.lower import linalg_program

    batch = options["batch"]
    program = linalg_program(model, dtype=options["dtype"], records=records, batch=batch)
    from nirbridge.dialect.lowering.program import RUN, iree_text, state_arrays

    text = iree_text(program) if options["device"] == "llvm-cpu" else program.text

    ids = [p.id for p in names.inputs] or [""]
    results = (*(p.id for p in names.outputs), *record_keys(names, records))
    inputs = tuple((key, tensor.dtype) for key, tensor in zip(ids, program.inputs, strict=True))
    states = tuple(state_arrays(program, batch))
    parts = tuple((state.node, state.variable) for state in program.states)
    return IreeModule(checked_text(text), RUN, batch, None, inputs, results, states, parts)


def stablehlo_module(
    model: Network | QuantizedNetwork, names: ProgramNames, options: Mapping[str, Any], records: Sequence[Key]
) -> IreeModule:
    """The module of ``jax.export`` for a fixed batch and number of time steps; its weights are constants.

    Raises:
        ToolMissing: jax is not installed.
        ModelError: jax refuses the module.
    """
    from nirbridge.emitters.jax.emit import JaxOptions
    from nirbridge.emitters.jax.emit import emit as emit_jax
    from nirbridge.emitters.jax.process import EXPORT_S, JAX_TOOL

    JAX_TOOL.needed()
    program = emit_jax(model, JaxOptions(dtype=options["dtype"], stablehlo=False))
    keys = record_keys(names, records)
    order = {"batch": options["batch"], "steps": options["steps"], "record": keys}
    order["inputs"] = [(p.id, p.shape, p.dtype) for p in names.inputs]
    files = {
        **program.files,
        "stablehlo.py": template_bytes(STABLEHLO),
        "order.json": json.dumps(order).encode("ascii"),
    }
    content = output_of_script(files, "stablehlo.py", EXPORT_S, tool=TOOL)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        facts = parse_json(str(arrays["facts"]), "facts of a module", bytes_max=ANSWER_BYTES_MAX)
        states = tuple(arrays[f"state{k}"] for k in range(facts["states"]))
        text = str(arrays["text"])
    inputs = tuple((key, kind) for key, kind in facts["inputs"])
    return IreeModule(
        checked_text(text), "main", options["batch"], options["steps"], inputs, tuple(facts["results"]), states
    )


def record_keys(names: ProgramNames, records: Sequence[Key]) -> tuple[str, ...]:
    """The keys of recorded variables, as ``program.json`` has them."""
    variables = {node.name: node.variables for node in names.nodes}
    return tuple(variables[name][variable] for name, variable in records)


def checked_text(text: str) -> str:
    """The text of a module whose operations IREE knows.

    Raises:
        ModelError: an operation of another dialect; IREE's compiler ends without a message on such a one.
    """
    body = text.partition("{-#")[0]
    strange = sorted({f"{d}.{o}" for d, o in _OPERATION.findall(body) if d not in DIALECTS})
    strange += [o for o in ("stablehlo.custom_call",) if o in body]
    if strange:
        limit = f"IREE is given operations of {', '.join(DIALECTS)}"
        raise ModelError.of("module", f"has the operation {quoted(strange[0])}", limit, "please report it")
    return text
