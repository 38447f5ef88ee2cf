"""JAX as a target: a network in float32 or float64, or a quantized network in integers, as a module with one scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.jax.process import exported_bytes, is_installed
from nirbridge.emitters.jax.render import export_text, module_text, readme_text, run_text
from nirbridge.emitters.ports import NETWORK, PROGRAM, ProgramNames
from nirbridge.emitters.target import Target, later
from nirbridge.errors import ModelError
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork

Platform = Literal["cpu", "cuda", "rocm", "tpu"]
EXPORTED = "network.stablehlo"
NOT_INSTALLED = "no network.stablehlo: the package jax is not installed; `python export.py` makes it where it is"
NO_INPUT = "no network.stablehlo: a network without input has a number of time steps that no array gives"


@dataclass(frozen=True, slots=True)
class JaxOptions:
    """Options for emitting a module for JAX."""

    dtype: Annotated[Literal["float32", "float64"], "Type of real numbers"] = "float32"
    stablehlo: Annotated[bool | None, "Keep the network as StableHLO too, by default where jax is installed"] = None
    platforms: Annotated[tuple[Platform, ...], "Platforms of the StableHLO"] = get_args(Platform)


def emit(model: Network | QuantizedNetwork, options: JaxOptions | None = None) -> Artifact:
    """The module of a network, its weights and, where jax is installed, StableHLO.

    The same model and options give the same bytes; those of the StableHLO also depend on the version of jax.

    Raises:
        UsageError: StableHLO is requested and jax is not installed.
        ModelError: no output to compute, or jax refuses the module.
    """
    chosen = options or JaxOptions()
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


JAX = Target(
    name="jax",
    summary="a pure function of JAX with one scan over time, for jit and vmap on any device",
    takes=(Network, QuantizedNetwork),
    hint="emit its quantized network or the network itself",
    options=JaxOptions,
    make=emit,
    start=later("nirbridge.emitters.jax.process:run_program"),
)
