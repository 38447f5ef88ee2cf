"""nirbridge: the compiler from a trained spiking network (NIR) to a checked map onto a neuromorphic chip.

``import nirbridge as nb`` has every stage as a function: ``load``, ``map``, ``quantize``, ``simulate``, ``emit``,
``run``, ``verify``, ``compare`` and ``save``. Their modules are imported when a name is first used.
"""

from nirbridge import errors as errors
from nirbridge._version import __version__

_PLACES = {
    "Bench": "nirbridge.benchmarking.model",
    "Chip": "nirbridge.chips.model",
    "MapOptions": "nirbridge.pipeline.options",
    "MappedNetwork": "nirbridge.mapping.model",
    "Network": "nirbridge.network.model",
    "Neuron": "nirbridge.network.neurons",
    "Population": "nirbridge.network.model",
    "Probe": "nirbridge.simulators.types",
    "Projection": "nirbridge.network.model",
    "Profile": "nirbridge.profiling.model",
    "QuantizedNetwork": "nirbridge.quantization.model",
    "Recording": "nirbridge.simulators.types",
    "Session": "nirbridge.api.sessions",
    "Timing": "nirbridge.network.model",
    "apply": "nirbridge.api.stages",
    "bench": "nirbridge.api.measures",
    "check_fit": "nirbridge.api.stages",
    "chip": "nirbridge.api.models",
    "chips": "nirbridge.chips",
    "compare": "nirbridge.api.runs",
    "emit": "nirbridge.api.runs",
    "load": "nirbridge.api.models",
    "load_map": "nirbridge.api.files",
    "load_quantized": "nirbridge.api.files",
    "load_recording": "nirbridge.api.files",
    "load_verification": "nirbridge.api.files",
    "lower": "nirbridge.api.stages",
    "map": "nirbridge.api.stages",
    "open": "nirbridge.api.sessions",
    "plot_bench": "nirbridge.api.measures",
    "plot_difference": "nirbridge.api.pictures",
    "plot_energy": "nirbridge.api.pictures",
    "plot_floorplan": "nirbridge.api.pictures",
    "plot_network": "nirbridge.api.pictures",
    "plot_proof": "nirbridge.api.pictures",
    "plot_pareto": "nirbridge.api.pictures",
    "plot_profile": "nirbridge.api.pictures",
    "plot_raster": "nirbridge.api.pictures",
    "plot_traces": "nirbridge.api.pictures",
    "plot_traffic": "nirbridge.api.pictures",
    "profile": "nirbridge.api.measures",
    "quantize": "nirbridge.api.stages",
    "read_events": "nirbridge.api.files",
    "run": "nirbridge.api.runs",
    "save": "nirbridge.api.files",
    "simulate": "nirbridge.api.runs",
    "sweep": "nirbridge.api.measures",
    "verify": "nirbridge.api.runs",
    "write_report": "nirbridge.api.files",
}
"""Name -> the module that defines it."""

__all__ = ["__version__", "errors", *_PLACES]


def __getattr__(name: str) -> object:
    """A name of the front door, from its module, which is imported now."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'nirbridge' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(place)
    found = module if place == f"nirbridge.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
