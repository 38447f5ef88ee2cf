"""Networks, graphs, modules and files as a ``Network``; chips by name, path or value."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nirbridge import pipeline, plugins
from nirbridge._types import Progress
from nirbridge.api.arguments import Count, Natural, checked, kind_of, shows_progress
from nirbridge.chips import Chip, without_cores
from nirbridge.errors import Diagnostic, UsageError, quoted
from nirbridge.files.places import file_name
from nirbridge.importers.frameworks import PLAIN, framework_of
from nirbridge.network.model import ModelFile, Network, Timing
from nirbridge.network.storage.file import SUFFIX

FilePath = str | os.PathLike[str]
ChipLike = Chip | str | os.PathLike[str]
_BUILD = "build the module and give it: nirbridge.importers.weights.load_weights(net, PATH), nb.load(net, sample=...)"
_OTHER_FILES = {
    ".map.json": "a map is read by load_map()",
    ".q.npz": "a quantized network is read by load_quantized()",
    ".npz": "a recording is read by load_recording()",
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors"), _BUILD),
    ".py": "import it in Python, and give the module that it makes",
}


@checked
@shows_progress
def load(
    model: object,
    *,
    sample: object = None,
    framework: str = "auto",
    dt: float | None = None,
    timing: Timing | None = None,
    repairs: Sequence[str] = (),
    convert: object = None,
    check: Natural | None = None,
    max_bytes: Count | None = None,
    progress: Progress | bool = True,
    **options: object,
) -> Network:
    """The network of a model.

    Args:
        model: a torch module of any framework, a ``nir.NIRGraph``, the path of a ``.nir``, ``.net.npz``,
            ``.mlir`` (of ``lower`` or snn-mlir) or ``.net`` file (of lava-dl), or a ``Network``, which is returned as
            it is.
        sample: of a module: an input as it takes it, one time step or a whole sequence; a tuple for several arguments.
            Other models have shapes of their own, and it is not used.
        framework: of a module: the name of its importer; ``auto`` recognises it by the classes of its parts.
        dt: seconds per time step; None: as the file or the importer says (assumed, with a note, if neither does).
        timing: how continuous time becomes time steps; None: as the file says.
        repairs: of a file or a graph: known faults of its exporter to repair, by name; ``NAME=NODE,NODE``: of these
            neurons alone.
        convert: of a module without spikes: typical inputs ``[samples, *shape]``, some hundreds of training samples;
            its activations then become spike rates. Without it such a module is an error.
        check: of a module: random inputs on which module and network are compared (0: none; None: 2, if it is cheap).
        max_bytes: of a file: how much it may declare.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction of it.
        options: of a module: further options of the importer, as ``time_axis``, or ``steps`` of a conversion.

    Raises:
        UsageError: an argument that does not fit the model; a module without spikes and no ``convert``.
        FileError: a file that cannot be read.
        ModelError: what has no exact meaning as a network.
        UnequalImport: the network does not compute the same as the module.

    Example:
        >>> nb.load("model.nir")
        Network: 74 neurons, 2 populations, dt 100 us
    """
    del progress  # the imports within have it
    arguments = {
        "sample": sample,
        "framework": None if framework == "auto" else framework,
        "dt": dt,
        "timing": timing,
        "repairs": repairs or None,
        "convert": convert,
        "check": check,
        "max_bytes": max_bytes,
        **options,
    }
    arguments = {name: value for name, value in arguments.items() if value is not None}
    network = _load(model, arguments)
    if not network.is_dt_assumed or network is model:
        return network
    note = f"dt is assumed to be {network.dt:g} s, since the model states none: give dt where time steps differ"
    return replace(network, notes=(*network.notes, note))


@checked
def chip(chip: ChipLike, *, without: Sequence[Natural] = ()) -> Chip:
    """A chip by name, from a TOML file or as a value, without the cores ``without`` (numbers on chip 0).

    Raises:
        ChipError: no chip of that name, or a description with faults, each of them.

    Example:
        >>> nb.chip("loihi1").core.neurons
        1024
    """
    described = (
        chip if isinstance(chip, Chip) else plugins.find_chip(os.fspath(chip) if isinstance(chip, str) else Path(chip))
    )
    return without_cores(described, tuple(without)) if without else described


def network_of(model: object, sample: object = None) -> Network:
    """The network of a model that was given to a stage. Raises as ``load``."""
    return _load(model, {} if sample is None else {"sample": sample})


def is_graph(value: object) -> bool:
    """True for a ``nir.NIRGraph``; nir is not imported for it."""
    nir: Any = sys.modules.get("nir")
    return nir is not None and isinstance(value, nir.NIRGraph)


def _load(model: object, arguments: Mapping[str, Any]) -> Network:
    if isinstance(model, Network):
        _only(arguments, ("sample",), "a Network")
        return model
    if isinstance(model, str | os.PathLike):
        _only(arguments, ("sample", "dt", "timing", "repairs", "max_bytes"), "the path of a file")
        return _from_file(os.fspath(model), arguments)
    if is_graph(model):
        _only(arguments, ("sample", "dt", "timing", "repairs"), "a NIRGraph")
        return pipeline.network_of_graph(model, _timing(arguments), repairs=arguments.get("repairs", ()))
    if framework_of(model, plugins.names("importers")) is not None or "framework" in arguments:
        return _from_module(model, arguments)
    limit = "a model is a torch module, a nir.NIRGraph, the path of a .nir, .net.npz, .mlir or .net file, or a Network"
    raise UsageError.of("model", kind_of(model), limit, _hint(model))


def _hint(model: object) -> str:
    name = type(model).__name__
    if name in ("MappedNetwork", "QuantizedNetwork", "Recording"):
        return "give the network that it was made from"
    if isinstance(model, Mapping):
        return "build the module and give it: net.load_state_dict(...), nb.load(net, sample=...)"
    if type(model).__module__.startswith("nir."):
        return "wrap it with nir.NIRGraph.from_list"
    return "give an instance, not the class" if isinstance(model, type) else "give one of these"


def _only(arguments: Mapping[str, Any], names: Sequence[str], kind: str) -> None:
    """Raises UsageError for arguments that say nothing of such a model, each of them."""
    limit = f"{kind} takes {', '.join(names)}"
    UsageError.raise_all(
        Diagnostic(f"argument {quoted(name)}", "does not apply here", limit, "leave it out")
        for name in arguments
        if name not in names
    )


def _timing(arguments: Mapping[str, Any]) -> Timing | None:
    """The timing with ``dt`` in it. Raises UsageError where the two differ."""
    timing, dt = arguments.get("timing"), arguments.get("dt")
    if dt is None or timing is None:
        return timing if dt is None else Timing(dt=dt)
    if timing.dt not in (None, dt):
        raise UsageError.of("argument 'dt'", f"{dt:g} s", f"timing says {timing.dt:g} s", "give one of them")
    return replace(timing, dt=dt)


def _from_file(path: str, arguments: Mapping[str, Any]) -> Network:
    hint = next((text for end, text in _OTHER_FILES.items() if path.endswith(end) or f"{end}:" in path), None)
    if hint is not None and not path.endswith(SUFFIX):
        limit = f"a model file ends in .nir, {SUFFIX}, .mlir or .net"
        raise UsageError.of(f"model {quoted(path)}", "is not a model file", limit, hint)
    options = {name: arguments[name] for name in ("max_bytes", "repairs") if name in arguments}
    network = pipeline.load_network(path, _timing(arguments), **options)
    return replace(network, file=ModelFile(file_name(path), pipeline.file_sha256(path)))


def _from_module(module: object, arguments: Mapping[str, Any]) -> Network:
    options = dict(arguments)
    framework = options.pop("framework", None) or framework_of(module, plugins.names("importers")) or PLAIN
    timing, convert = options.pop("timing", None), options.pop("convert", None)
    if framework == PLAIN:
        options |= {} if convert is None else {"calibration": convert}
    elif convert is not None:
        limit = f"the module has neurons of {framework}, whose spikes are imported as they are"
        raise UsageError.of("argument 'convert'", "does not apply here", limit, "leave it out")
    if "sample" not in options:
        limit = "shapes are inferred from an input of the module"
        raise UsageError.of(f"module {quoted(type(module).__name__)}", "no sample", limit, "give sample=")
    options_known = _known(framework, options)
    graph = pipeline.import_module(framework, module, options_known.pop("sample"), **options_known)
    return pipeline.network_of_graph(graph, timing)


def _known(framework: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the importer has. Raises UsageError for others, each of them."""
    parameters = inspect.signature(plugins.get("importers", framework)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(options)
    names = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    taken = dict.fromkeys(["sample", *names, "calibration", "check"])
    _only(options, list(taken), f"the importer of {framework}")
    return dict(options)
