"""JAX as a target: a network in float32 or float64, or a quantized network in integers, as a module with one scan."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.jax.module import INDENT, TEMPLATES, ModuleWriter, axes, used_helpers
from nirbridge.emitters.jax.process import exported_bytes, is_installed
from nirbridge.emitters.ports import NETWORK, PROGRAM, ProgramNames
from nirbridge.emitters.program import filled as with_lines
from nirbridge.emitters.readme import filled
from nirbridge.emitters.surrogates import DEFAULT, SURROGATES, Name, SlopeField, SurrogateField, slope_of
from nirbridge.emitters.target import Target, later
from nirbridge.errors import ModelError, counted
from nirbridge.files.regular import template_text
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
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
    surrogate: SurrogateField = DEFAULT
    slope: SlopeField = None


def emit(model: Network | QuantizedNetwork, options: JaxOptions | None = None) -> Artifact:
    """The module of a network, its weights and, where jax is installed, StableHLO.

    The same model and options give the same bytes; those of the StableHLO also depend on the version of jax.

    Raises:
        UsageError: StableHLO is requested and jax is not installed; a slope that is no positive number.
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
    files["README.md"] = readme_text(names, more, about, chosen.surrogate).encode()
    facts = {"kind": "jax", "schema": 1, "numbers": names.facts["numbers"], "notes": [note] if note else []}
    return make_artifact(files, facts)


def _files(model: Network | QuantizedNetwork, options: JaxOptions) -> tuple[dict[str, bytes], ProgramNames]:
    """The files that need no jax, and the names of the program."""
    from nirbridge.emitters.jax.build import integer_module, real_module

    if isinstance(model, QuantizedNetwork):
        module, names = integer_module(model)
    else:
        module, names = real_module(model, options.dtype)
    slope = slope_of(options.surrogate, options.slope, "jax")
    files = {
        "network.py": module_text(module, names, options.surrogate, slope).encode("ascii"),
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
    session=later("nirbridge.emitters.jax.process:open_program"),
    carries=ALL,
)


# -- render --------------------------------------------------------------------------------------------------------
# The files of a JAX program from the lines of its module.

NEEDS_X64 = "Without 64 bits (`jax_enable_x64`) JAX would compute in fewer: the module refuses that."
_LEARNED = re.compile(r"c\d+(\.\d+)?\.(weight|scale|bias)\d*")
X64 = 'jax.config.update("jax_enable_x64", True)\n'
CHECKED = """def _check_numbers():
    if jax.dtypes.canonicalize_dtype(jnp.float64) != jnp.float64:
        raise RuntimeError("this network needs 64 bits: jax.config.update('jax_enable_x64', True) first")"""
TRAINING = """Gradients by `jax.grad`: of the arrays in `network.LEARNED`, of any other real numbers, and of the input.
The gradient of a spike is
{sentence};
`network.SLOPE` is the slope. A reset has no gradient by its spike.

    def loss(learned, spikes):
        outputs, _ = network.run({{**weights, **learned}}, {{"in0": spikes}}, state)
        return ((outputs["out0"].sum(0) - target) ** 2).mean()

    gradient = jax.grad(loss)({{key: weights[key] for key in network.LEARNED}}, spikes)

"""
MORE_ARGS = """
        steps: number of time steps, which no input gives here; a static argument.
        batch: the shape of the batch; a static argument."""


def template(name: str) -> str:
    """The text of a template."""
    return template_text(TEMPLATES / f"{name}.txt")


def numbers_text(names: ProgramNames) -> str:
    """The numbers that the module computes in."""
    numbers = names.facts["numbers"]
    return numbers if numbers != "integers" else "the integers of a chip"


def needs_x64(names: ProgramNames) -> bool:
    """True where JAX has to have 64 bits."""
    return names.facts["numbers"] != "float32"


def module_text(m: ModuleWriter, names: ProgramNames, surrogate: Name, slope: float) -> str:
    """``network.py``; ``surrogate``, ``slope``: of the derivative of spikes."""
    neurons = sum(math.prod(n.shape) for n in names.nodes)
    more = "" if names.inputs else ", steps=1, batch=()"
    extent = ["time, batch = steps, tuple(batch)"]
    if names.inputs:
        first = names.inputs[0]
        extent = [f'first = inputs["{first.id}"]', f"batch = first.shape[1 : first.ndim - {len(first.shape)}]"]
    helpers = [CHECKED] if needs_x64(names) else []
    helpers += [_spike_text(surrogate)] if "spike" in m.helpers else []
    marks = {
        "COUNTS": f"{counted(len(names.nodes), 'population')}, {counted(neurons, 'neuron')}",
        "NUMBERS": numbers_text(names),
        "INPUTS": "{" + ", ".join(f'"{p.id}": spikes' for p in names.inputs) + "}",
        "OUTPUTS": axes([f'"{p.id}"' for p in names.outputs]),
        "LEARNED": "".join(f"{line}\n" for line in _learned(m, names, slope)),
        "STATES": _indented((f'"{key}": {value},' for key, value in m.states.items()), 2),
        "MORE": more,
        "MORE_ARGS": MORE_ARGS if more else "",
        "EXTENT": _indented(extent),
        "BEFORE": _indented(m.before if _gives_time(m, names) else [*m.before, f'now["time"] = {names.inputs[0].id}']),
        "LENGTH": "" if names.inputs else ", length=time",
        "STEP": _indented(m.step),
        "CHECK_CALL": f"{INDENT}_check_numbers()\n" if needs_x64(names) else "",
        "HELPERS": "\n\n\n".join([*helpers, *used_helpers(m.helpers), *m.functions.values()]),
    }
    return filled(template("network.py"), marks).rstrip("\n") + "\n"


def _learned(m: ModuleWriter, names: ProgramNames, slope: float) -> list[str]:
    """Lines about what learns; none of integers."""
    if _is_fixed(names):
        return []
    keys = [f'"{key}"' for key in m.weights if _LEARNED.fullmatch(key)]
    lines = ["# keys of weights and biases, which learn", f"LEARNED = {axes(keys)}"]
    return [*lines, f"SLOPE = {slope!r}  # of the derivative of a spike"] if "spike" in m.helpers else lines


def _is_fixed(names: ProgramNames) -> bool:
    """True where no loss is a function of weights and inputs."""
    return names.facts["numbers"] == "integers" or not names.inputs


def _spike_text(surrogate: Name) -> str:
    chosen = SURROGATES[surrogate]
    blocks = {
        "DOC": [f'"""Numbers of spikes; derivative: {chosen.formula}, d the distance to the thresholds."""'],
        "RETURN": [f"return spikes, {chosen.code.format(xp='jnp', slope='SLOPE')}"],
    }
    return with_lines(template("spike.py"), blocks).strip("\n")


def run_text(names: ProgramNames) -> str:
    """``run.py``."""
    given = ["arrays, batch = {}, (1,)", 'static |= {"steps": int(sys.argv[4]), "batch": batch}']
    if names.inputs:
        first = names.inputs[0]
        given = [
            "given = np.load(sys.argv[1], allow_pickle=False)",
            f'arrays = {{"{first.id}": given}} if isinstance(given, np.ndarray) else dict(given)',
            f'batch = arrays["{first.id}"].shape[1 : arrays["{first.id}"].ndim - {len(first.shape)}]',
        ]
    return filled(template("run.py"), {"GIVEN": _indented(given), "X64": X64 if needs_x64(names) else ""})


def export_text(names: ProgramNames, platforms: Iterable[str]) -> str:
    """``export.py``."""
    shapes = ", ".join(f'"{p.id}": ({axes(p.shape)}, "{p.dtype}")' for p in names.inputs)
    marks = {"SHAPES": f"{{{shapes}}}", "PLATFORMS": ",".join(platforms)}
    return filled(template("export.py"), {**marks, "X64": X64 if needs_x64(names) else ""})


def readme_text(names: ProgramNames, files: Iterable[tuple[str, str]], about_export: str, surrogate: Name) -> str:
    """``README.md``; ``files``: further files with a phrase each."""
    rows = "".join(f"| `{name}` | {phrase} |\n" for name, phrase in files)
    marks = {"NUMBERS": numbers_text(names), "PORTS": names.table(), "FILES": rows, "STABLEHLO": about_export}
    sentence = SURROGATES[surrogate].sentence
    marks["TRAINING"] = "" if _is_fixed(names) else TRAINING.format(sentence=sentence)
    return filled(template("README.md"), {**marks, "X64": f"{NEEDS_X64}\n\n" if needs_x64(names) else ""})


def _gives_time(m: ModuleWriter, names: ProgramNames) -> bool:
    """True where the scan has an array with a time axis, or a number of time steps is given."""
    return not names.inputs or any(line.startswith("now[") for line in m.before)


def _indented(lines: Iterable[str], depth: int = 1) -> str:
    return "\n".join(INDENT * depth + line for line in lines)
