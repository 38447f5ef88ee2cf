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
    hdf5 = tuple(f"importers/nirfile/hdf5/{name}.py" for name in ("items", "scan"))
    nodes = tuple(f"importers/nirfile/{name}.py" for name in ("reader", "nodes", "repairs", "faults"))
    npy = ("files/npy.py", "simulators/inputs.py")
    binned = ("events/model.py", "events/sources.py")
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
            ("nirbridge.importers.shapes:_node",),
            ("importers/shapes.py",),
            14,
        ),
        Target(
            "map",
            models.make_map,
            models.read_map,
            ("nirbridge.mapping.storage.file:map_from_dict",),
            (
                *(f"mapping/storage/{name}.py" for name in ("file", "record", "consistency")),
                *(f"mapping/checker/{name}.py" for name in ("check", "recount")),
            ),
            32,
            "a.map.json",
        ),
        Target(
            "quantized",
            models.make_quantized,
            models.read_quantized,
            ("nirbridge.quantization.storage.file:quantized_from_dict",),
            ("quantization/storage/file.py",),
            24,
            "a.q.npz",
        ),
        Target(
            "network",
            models.make_network,
            models.read_network,
            ("nirbridge.network.storage.file:network_from_dict",),
            (
                "files/npy.py",
                "network/check.py",
                "network/storage/file.py",
                "network/storage/codec.py",
            ),
            24,
            "a.net.npz",
        ),
        Target(
            "verification",
            models.make_verification,
            models.read_verification,
            ("nirbridge.verification.storage:verification_from_dict",),
            ("files/npy.py", "verification/storage.py"),
            16,
            "v.npz",
        ),
        Target(
            "chip",
            models.make_chip,
            models.read_chip,
            ("nirbridge.chips.load:chip_dict_problems",),
            tuple(f"chips/{name}.py" for name in ("load", "codec", "schema", "check")),
            20,
            "a.toml",
        ),
        Target(
            "sweep",
            models.make_sweep,
            models.read_sweep,
            ("nirbridge.sweeps.spec:spec_from_dict",),
            ("files/json_text.py", "sweeps/spec.py", "sweeps/plan.py"),
            10,
            "s.toml",
            writes=True,
        ),
        Target(
            "mlir",
            models.make_mlir,
            models.read_mlir,
            ("nirbridge.dialect.snn_mlir.read:facts_of",),
            tuple(f"dialect/snn_mlir/{name}.py" for name in ("tokens", "grammar", "arrays", "read")),
            10,
            "a.mlir",
        ),
        Target(
            "dialect",
            models.make_dialect,
            models.read_mlir,
            ("nirbridge.dialect.module:check_module",),
            tuple(
                f"dialect/{name}.py" for name in ("module", "read", "base", "kinds", "structure", "synapses", "neurons")
            ),
            60,
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
            ("simulators/recording_file.py", "files/npy.py", "comparison/distances.py"),
            14,
            "r.npz",
        ),
        Target(
            "state",
            models.make_state,
            models.read_state,
            ("nirbridge.simulators.state_file:check_fields",),
            ("simulators/state_file.py", "files/npy.py"),
            10,
            "s.npz",
        ),
        *(
            Target(name, make, read, (f"nirbridge.events.{name}:{first}",), (f"events/{name}.py", *binned), 10, file)
            for name, make, read, first, file in (
                ("aedat2", arrays.make_aedat2, arrays.read_events, "checked_events", "a.aedat"),
                ("aedat4", arrays.make_aedat4, arrays.read_events, "_streams", "a.aedat4"),
                ("columns", arrays.make_columns, arrays.read_events, "checked_events", "a.npz"),
                ("nirdata", arrays.make_nir_data, arrays.read_nir_data, "_nodes", "a.h5"),
            )
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
            ("nirbridge.pipeline.quantize:open_inputs",),
            (
                "files/npy.py",
                "simulators/inputs.py",
                "cli/options.py",
                "importers/ann/replay.py",
            ),
            8,
            "a.npz",
        ),
        Target(
            "labels",
            arrays.make_labels,
            arrays.read_labels,
            ("nirbridge.comparison.compare:checked_labels",),
            ("files/npy.py", "comparison/distances.py"),
            6,
            "a.npy",
        ),
        Target(
            "weights",
            arrays.make_weights,
            arrays.read_weights,
            ("nirbridge.importers.weights:_mismatches",),
            ("importers/weights.py",),
            8,
            "w.pt",
        ),
        Target(
            "safetensors",
            arrays.make_safetensors,
            arrays.read_weights,
            ("nirbridge.importers.weights:_mismatches",),
            ("files/safetensors.py", "importers/weights.py"),
            8,
            "w.safetensors",
        ),
        Target(
            "part",
            arrays.make_part,
            arrays.read_part,
            ("nirbridge.sweeps.run:_is_row",),
            ("files/json_text.py", "sweeps/run.py", "sweeps/table.py"),
            8,
            "part.json",
        ),
        Target(
            "table",
            arrays.make_table,
            arrays.read_table,
            ("nirbridge.sweeps.table:_kinds",),
            ("sweeps/table.py", "sweeps/table.py"),
            6,
            "t.parquet",
        ),
        Target(
            "passes",
            words.make_passes,
            words.read_passes,
            ("nirbridge.passes.text:instance_of",),
            ("passes/text.py", "passes/text.py"),
            10,
        ),
        Target(
            "options",
            words.make_option,
            words.read_option,
            words.PAST_OPTIONS,
            (
                *(f"cli/{name}.py" for name in ("common", "model_target", "options")),
                *(f"cli/commands/{name}.py" for name in ("simulate", "compare")),
            ),
            14,
        ),
        Target(
            "commands",
            words.make_line,
            words.read_line,
            words.PAST_COMMANDS,
            (
                "cli/main.py",
                *(
                    f"cli/commands/{name}.py"
                    for name in ("check", "map", "quantize", "inspect", "simulate", "compare", "chips")
                ),
            ),
            3,
            writes=True,
        ),
        Target(
            "plugins",
            words.make_plugin,
            words.read_plugin,
            ("nirbridge.plugins.registry:_imported", "nirbridge.plugins.registry:_resource"),
            ("plugins/registry.py", "plugins/record.py"),
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
