"""JAX as a target: a network in float32 or float64, or a quantized network in integers, as a module with one scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.jax.process import exported_bytes, is_installed
from nirbridge.emitters.jax.render import export_text, module_text, readme_text, run_text
from nirbridge.emitters.ports import NETWORK, PROGRAM, ProgramNames
from nirbridge.errors import ModelError, UsageError, instance_of
from nirbridge.mapping.model import Model
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording

TAKES = (Network, QuantizedNetwork)
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
EXPORTED = "network.stablehlo"
NOT_INSTALLED = "no network.stablehlo: the package jax is not installed; `python export.py` makes it where it is"
NO_INPUT = "no network.stablehlo: a network without input has a number of time steps that no array gives"


@dataclass(frozen=True, slots=True)
class JaxOptions:
    """Options for emitting a module for JAX.

    Attributes:
        dtype: of a network in real numbers.
        stablehlo: keep the network as StableHLO too; None: where jax is installed.
        platforms: those that the StableHLO is for.
    """

    dtype: Literal["float32", "float64"] = "float32"
    stablehlo: bool | None = None
    platforms: tuple[str, ...] = PLATFORMS


def emit(model: Network | QuantizedNetwork, options: JaxOptions | None = None) -> Artifact:
    """The module of a network, its weights and, where jax is installed, StableHLO.

    The same model and options give the same bytes; those of the StableHLO also depend on the version of jax.

    Raises:
        UsageError: an unknown type of numbers, or StableHLO is requested and jax is not installed.
        ModelError: no output to compute, or jax refuses the module.
    """
    chosen = options or JaxOptions()
    if chosen.dtype not in ("float32", "float64"):
        raise UsageError.of("options of emitter 'jax'", f"dtype {chosen.dtype!r}", "float32 or float64")
    if not model.outputs:
        raise ModelError.of("network", "has no output", "a function for JAX returns one", "add an output")
    files, names = _files(model, chosen)
    content, note = _stablehlo(files, names, chosen)
    more = [(EXPORTED, "the network as StableHLO, for other versions of JAX")] if content else []
    if content:
        files[EXPORTED] = content
    if isinstance(model, QuantizedNetwork):
        from nirbridge.quantization.storage.file import quantized_bytes

        files[NETWORK] = quantized_bytes(model)
        more.append((NETWORK, "the same integers as a file of nirbridge"))
    about = f"There is {note}." if note else _about(chosen.platforms)
    files["README.md"] = readme_text(names, more, about).encode()
    facts = {"kind": "jax", "schema": 1, "numbers": names.facts["numbers"], "notes": [note] if note else []}
    return make_artifact(files, facts)


def _files(model: Network | QuantizedNetwork, options: JaxOptions) -> tuple[dict[str, bytes], ProgramNames]:
    """The files that need no jax, and the names of the program."""
    from nirbridge.emitters.jax.integers import integer_module
    from nirbridge.emitters.jax.real import real_module

    if isinstance(model, QuantizedNetwork):
        module, names = integer_module(model)
    else:
        module, names = real_module(model, options.dtype)
    files = {
        "network.py": module_text(module, names).encode("ascii"),
        "run.py": run_text(names).encode(),
        "weights.npz": npz_bytes(module.weights),
        PROGRAM: names.as_json(),
    }
    if names.inputs:
        files["export.py"] = export_text(names, options.platforms).encode()
    return files, names


def _stablehlo(files: Mapping[str, bytes], names: ProgramNames, options: JaxOptions) -> tuple[bytes, str]:
    """The bytes of jax.export, or none and the reason."""
    if options.stablehlo is False:
        return b"", "no network.stablehlo: `python export.py` makes it"
    if not names.inputs:
        return b"", NO_INPUT
    if options.stablehlo is None and not is_installed():
        return b"", NOT_INSTALLED
    return exported_bytes(files), ""


def _about(platforms: Sequence[str]) -> str:
    return (
        f"`network.stablehlo` keeps the same function for {', '.join(platforms)}, with one batch axis of any size:\n"
        "`jax.export.deserialize(bytearray(content)).call(weights, inputs, state)`."
    )


@dataclass(frozen=True, slots=True)
class JaxEmitter:
    """Modules for JAX: a pure function with one scan over time, for jit and vmap, on any device."""

    takes = TAKES
    options = JaxOptions
    records = ("s", "u", "v")

    def emit(self, model: Model, options: JaxOptions | None = None) -> Artifact:
        """See ``emit``."""
        known = instance_of(model, TAKES, "model of emitter 'jax'", "emit its quantized network or the network itself")
        if options is not None:
            instance_of(options, JaxOptions, "options of emitter 'jax'")
        return emit(known, options)

    def run(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``run_program``: in a process of its own, on the CPU unless ``JAX_PLATFORMS`` says otherwise."""
        from nirbridge.emitters.jax.process import run_program

        program = instance_of(artifact, Artifact, "program of emitter 'jax'")
        return run_program(program, inputs, steps=steps, record=record, progress=progress)


JAX = JaxEmitter()
