"""Every reader of nirbridge: generation of inputs, call, and the function that follows its first check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz import read_arrays as arrays
from tests.fuzz import read_models as models
from tests.fuzz import read_words as words
from tests.fuzz.choices import Choices


@dataclass(frozen=True, slots=True)
class Target:
    """A reader.

    ``make``: an input from decisions (bytes are written to ``file`` first); ``read``: calls the reader with the path of
    that file, or with the input. ``first``: functions (``module:name``) that are called only past the first check.
    ``sources``: the files of which line coverage is measured. ``share``: of the inputs of a campaign. ``writes``: the
    folder may change, since files are named by the input.
    """

    name: str
    make: Callable[[Choices], Any]
    read: Callable[[Any], object]
    first: tuple[str, ...]
    sources: tuple[str, ...]
    share: int
    file: str = ""
    writes: bool = False


def _table() -> tuple[Target, ...]:
    hdf5 = tuple(
        f"importers/{name}.py"
        for name in ("nir_file", "hdf5_scan", "hdf5_filters", "hdf5_heaps", "hdf5_items", "hdf5_text")
    )
    nodes = tuple(f"importers/{name}.py" for name in ("nir_nodes", "nir_values", "load_repaired", "exporter_faults"))
    npy = ("files/npy.py", "simulators/inputs.py")
    return (
        Target(
            "nir",
            models.make_nir,
            models.read_nir,
            ("nirbridge.importers.nirfile.reader:draft_graph",),
            (*hdf5, *nodes, "network/nir/fields.py", "network/nir/from_nir.py", "network/nir/flatten.py"),
            60,
            "a.nir",
        ),
        Target(
            "shapes",
            models.make_shapes,
            models.read_shapes,
            ("nirbridge.importers.shapes.parser:_node",),
            ("importers/shapes/parser.py", "importers/shapes/tokens.py"),
            14,
        ),
        Target(
            "map",
            models.make_map,
            models.read_map,
            ("nirbridge.mapping.storage.file:map_from_dict",),
            tuple(f"mapping/{name}.py" for name in ("file", "record", "form", "check", "claims", "timing")),
            32,
            "a.map.json",
        ),
        Target(
            "quantized",
            models.make_quantized,
            models.read_quantized,
            ("nirbridge.quantization.storage.file:quantized_from_dict",),
            tuple(f"quantization/{name}.py" for name in ("file", "record", "typed", "check")),
            24,
            "a.q.npz",
        ),
        Target(
            "network",
            models.make_network,
            models.read_network,
            ("nirbridge.network.storage.file:network_from_dict",),
            (
                "files/records.py",
                "network/check.py",
                *(f"network/storage/{name}.py" for name in ("file", "codec", "check")),
            ),
            24,
            "a.net.npz",
        ),
        Target(
            "verification",
            models.make_verification,
            models.read_verification,
            ("nirbridge.verification.storage:verification_from_dict",),
            ("files/records.py", "verification/storage.py"),
            16,
            "v.npz",
        ),
        Target(
            "chip",
            models.make_chip,
            models.read_chip,
            ("nirbridge.chips.load:chip_dict_problems",),
            tuple(f"chips/{name}.py" for name in ("load", "record", "fields", "check")),
            20,
            "a.toml",
        ),
        Target(
            "sweep",
            models.make_sweep,
            models.read_sweep,
            ("nirbridge.sweeps.spec:spec_from_dict",),
            ("files/toml.py", "sweeps/spec.py", "sweeps/plan.py"),
            10,
            "s.toml",
        ),
        Target(
            "mlir",
            models.make_mlir,
            models.read_mlir,
            ("nirbridge.dialect.snn_mlir.read:facts_of",),
            tuple(
                f"dialect/snn_mlir/{name}.py" for name in ("tokens", "syntax", "parts", "constants", "arrays", "read")
            ),
            10,
            "a.mlir",
        ),
        Target(
            "npy", arrays.make_npy, arrays.read_npy, ("nirbridge.simulators.inputs:_shape_problems",), npy, 10, "a.npy"
        ),
        Target("npz", arrays.make_npz, arrays.read_npz, ("nirbridge.files.npy:_data",), npy, 12, "a.npz"),
        Target(
            "recording",
            arrays.make_recording,
            arrays.read_recording,
            ("nirbridge.files.npy:_data",),
            (
                "simulators/recording_file.py",
                "files/npy.py",
                "files/archive_names.py",
                "comparison/alignment.py",
            ),
            14,
            "r.npz",
        ),
        Target(
            "rates",
            arrays.make_rates,
            arrays.read_rates,
            ("nirbridge.mapping.rates:header_of",),
            ("mapping/rates.py",),
            10,
            "a.npz",
        ),
        Target(
            "calibration",
            arrays.make_calibration,
            arrays.read_calibration,
            ("nirbridge.pipeline.calibrated:open_inputs",),
            (
                "files/npy.py",
                "simulators/inputs.py",
                "cli/options.py",
                "importers/ann/data.py",
            ),
            8,
            "a.npz",
        ),
        Target(
            "labels",
            arrays.make_labels,
            arrays.read_labels,
            ("nirbridge.comparison.compare:checked_labels",),
            ("files/npy.py", "comparison/decisions.py"),
            6,
            "a.npy",
        ),
        Target(
            "options",
            words.make_option,
            words.read_option,
            words.PAST_OPTIONS,
            tuple(f"cli/{name}.py" for name in ("map", "quantize", "simulate", "import_", "import_target", "compare")),
            14,
        ),
        Target(
            "commands",
            words.make_line,
            words.read_line,
            words.PAST_COMMANDS,
            tuple(f"cli/{name}.py" for name in ("main", "check", "map", "inspect", "simulate", "compare", "chips")),
            3,
            writes=True,
        ),
        Target(
            "plugins",
            words.make_plugin,
            words.read_plugin,
            ("nirbridge.plugins.registry:_imported", "nirbridge.plugins.registry:_resource"),
            ("registry.py",),
            5,
        ),
        Target(
            "program",
            words.make_program,
            words.read_program,
            ("nirbridge.emitters.lava.runtime.run:opened_inputs",),
            ("emitters/lava/runtime/run.py", "emitters/artifact.py"),
            8,
            writes=True,
        ),
    )


TARGETS = {target.name: target for target in _table()}
