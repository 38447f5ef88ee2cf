"""The StableHLO of a network, through the module of the emitter for JAX, as one function of inputs and states."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import no_progress
from nirbridge.emitters.iree.module import IreeModule, checked_text, record_keys
from nirbridge.emitters.iree.tool import supervise
from nirbridge.emitters.jax.emit import JaxOptions
from nirbridge.emitters.jax.emit import emit as emit_jax
from nirbridge.emitters.jax.process import EXPORT_S, needed
from nirbridge.emitters.lava.runtime.supervision import start_guard
from nirbridge.emitters.ports import ProgramNames
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
    with start_guard() as (guarding, scratch):
        folder = scratch / "program"
        folder.mkdir()
        for name, content in program.files.items():
            (folder / name).write_bytes(content)
        (folder / "stablehlo.py").write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
        (folder / "order.json").write_text(json.dumps(order), encoding="ascii")
        command = [sys.executable, f"{folder}/stablehlo.py", f"{scratch}/out.npz"]
        supervise(guarding, command, scratch, EXPORT_S, 1, no_progress)
        content = (scratch / "out.npz").read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        facts = json.loads(str(arrays["facts"]))
        states = tuple(arrays[f"state{k}"] for k in range(facts["states"]))
        text = str(arrays["text"])
    inputs = tuple((key, kind) for key, kind in facts["inputs"])
    return IreeModule(
        checked_text(text), "main", options["batch"], options["steps"], inputs, tuple(facts["results"]), states
    )
