"""The StableHLO of a network, through the module of the emitter for JAX, as one function of inputs and states."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.emitters.iree.module import IreeModule, checked_text, record_keys
from nirbridge.emitters.iree.tool import TOOL
from nirbridge.emitters.jax.emit import JaxOptions
from nirbridge.emitters.jax.emit import emit as emit_jax
from nirbridge.emitters.jax.process import EXPORT_S, needed
from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.ports import ProgramNames
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.files.regular import template_bytes
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Key

TEMPLATE = Path(__file__).with_name("templates") / "stablehlo.py.txt"


def stablehlo_module(
    model: Network | QuantizedNetwork, names: ProgramNames, options: Mapping[str, Any], records: Sequence[Key]
) -> IreeModule:
    """The module of ``jax.export`` for a fixed batch and number of time steps; its weights are constants.

    Raises:
        ToolMissing: jax is not installed.
        ModelError: jax refuses the module.
    """
    needed()
    program = emit_jax(model, JaxOptions(dtype=options["dtype"], stablehlo=False))
    keys = record_keys(names, records)
    order = {"batch": options["batch"], "steps": options["steps"], "record": keys}
    order["inputs"] = [(p.id, p.shape, p.dtype) for p in names.inputs]
    files = {**program.files, "stablehlo.py": template_bytes(TEMPLATE), "order.json": json.dumps(order).encode("ascii")}
    content = output_of_script(files, "stablehlo.py", EXPORT_S, tool=TOOL)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        facts = parse_json(str(arrays["facts"]), "facts of a module", bytes_max=ANSWER_BYTES_MAX)
        states = tuple(arrays[f"state{k}"] for k in range(facts["states"]))
        text = str(arrays["text"])
    inputs = tuple((key, kind) for key, kind in facts["inputs"])
    return IreeModule(
        checked_text(text), "main", options["batch"], options["steps"], inputs, tuple(facts["results"]), states
    )
