"""IREE as a target: a network as MLIR, compiled ahead of time to a module that IREE's runtime loads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.iree.program import COMPILED, options_record, program_files
from nirbridge.emitters.iree.tool import compiled, has_compiler
from nirbridge.emitters.target import Target, later
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
from nirbridge.quantization.model import QuantizedNetwork

NOT_INSTALLED = "no network.vmfb: iree-compile is not installed; `python compile.py` makes it where it is"
NOT_WANTED = "no network.vmfb: `python compile.py` makes it"
BATCH_MAX = 65_536
_CPU = re.compile(r"[A-Za-z0-9_.-]{0,64}")


@dataclass(frozen=True, slots=True)
class IreeOptions:
    """Options for emitting a program for IREE.

    A processor with fused multiply-add rounds less often, and the last bit of real numbers differs; the default of
    ``cpu`` is any x86-64 with AVX, or IREE's own elsewhere.
    """

    source: Annotated[Literal["linalg", "stablehlo"], "MLIR that IREE compiles: nirbridge's, or JAX's"] = "linalg"
    device: Annotated[Literal["llvm-cpu", "vulkan-spirv"], "What IREE compiles for"] = "llvm-cpu"
    batch: Annotated[int, "Samples that the module takes at a time; others are run in groups of it"] = 1
    steps: Annotated[int, "Time steps that a module from StableHLO takes at a time; one from linalg takes any"] = 100
    dtype: Annotated[Literal["float32", "float64"], "Type of real numbers"] = "float32"
    cpu: Annotated[str, "Processor as LLVM names it, such as host"] = ""
    vmfb: Annotated[bool | None, "Compile it, by default where iree-compile is installed"] = None


def emit(model: Network | QuantizedNetwork, options: IreeOptions | None = None) -> Artifact:
    """The MLIR of a network, a script that runs it and, where IREE's compiler is installed, the compiled module.

    The same model and options give the same bytes; those of the module also depend on the version of IREE.

    Raises:
        ToolMissing: xDSL, or jax for StableHLO, is not installed, or a module is requested and IREE's compiler is not.
        UsageError: an option that does not apply.
        ModelError: no output to compute, or IREE refuses the module.
    """
    chosen = options or IreeOptions()
    _check_options(chosen)
    if not model.outputs:
        raise ModelError.of("network", "has no output", "a function for IREE returns one", "add an output")
    wanted = has_compiler() if chosen.vmfb is None else chosen.vmfb
    note = "" if wanted else (NOT_INSTALLED if chosen.vmfb is None else NOT_WANTED)
    files = program_files(model, options_record(chosen), notes=note)
    if wanted:
        files[COMPILED] = compiled(files)
    numbers = "integers" if isinstance(model, QuantizedNetwork) else chosen.dtype
    return make_artifact(files, {"kind": "iree", "schema": 1, "numbers": numbers, "notes": [note] if note else []})


def _check_options(options: IreeOptions) -> None:
    """Raises UsageError for the first option that does not apply."""
    subject = "options of emitter 'iree'"
    for name in ("batch", "steps"):
        value = getattr(options, name)
        if not isinstance(value, int) or not 1 <= value <= BATCH_MAX:
            raise UsageError.of(subject, f"{name} {value!r}", f"a whole number from 1 to {BATCH_MAX:,}")
    if not isinstance(options.cpu, str) or not _CPU.fullmatch(options.cpu):
        raise UsageError.of(subject, f"cpu {options.cpu!r}", "a name of a processor that LLVM knows", "'host'")
    if options.device == "vulkan-spirv" and (options.dtype != "float32" or options.cpu):
        raise UsageError.of(subject, "a type or processor with vulkan-spirv", "it computes in float32", "leave it out")


IREE = Target(
    name="iree",
    summary="MLIR, and the module that IREE compiles of it for processors and Vulkan devices",
    takes=(Network, QuantizedNetwork),
    hint="emit its quantized network or the network itself",
    options=IreeOptions,
    make=emit,
    start=later("nirbridge.emitters.iree.process:run_program"),
    session=later("nirbridge.emitters.iree.process:open_program"),
    carries=ALL,
)
