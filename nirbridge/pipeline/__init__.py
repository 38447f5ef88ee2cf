"""The table of contents of nirbridge: every stage in order, each from frozen values to a new frozen value.

1. ``load``: a file, shapes in words, or a module of a framework as a ``Network``; a chip by name.
2. ``passes``, ``fit``: the network as it will run on the chip, with relays, delays that hold the hops, copies.
3. ``partitioning``, ``map``: slices in cores, cores on the mesh, and the independent checker.
4. ``map_files``: the map as a file, and a file checked against its model.
5. ``quantize``, ``calibrated``: the network in the chip's integers, saved and run.
6. ``emit``: programs for another tool, emitted and run.
7. ``recordings``: inputs, the reference simulation and recordings.
8. ``verify``: all of these on the same input, compared.
9. ``profile``: rates measured on data, and what the events cost.
10. ``bench``: one model on every back end that is there, compared and timed.

Only this room knows all stages; heavy modules are imported where they are used.
"""

from nirbridge.dialect.lower import lower_model, model_on_cores, save_module
from nirbridge.pipeline.bench import BenchOptions, backend_names, bench_network
from nirbridge.pipeline.differences import differences
from nirbridge.pipeline.doctor import host_facts, tool_states
from nirbridge.pipeline.emit import (
    can_run,
    check_program_folder,
    default_chip,
    emit_quantized,
    emit_with,
    emitter_options,
    install_lava,
    lava_status,
    program_files,
    run_emitted,
    write_program,
)
from nirbridge.pipeline.fit import fit_to_chip, replicate_sources, retime
from nirbridge.pipeline.load import (
    assumes_dt,
    faults_of,
    fingerprint,
    framework_of,
    graph_of_text,
    import_module,
    is_emitted,
    load_chip,
    load_graph,
    load_labels,
    load_network,
    load_rates,
    load_weights,
    network_of_graph,
    network_of_shapes,
    portability_of,
    save_graph,
    save_network,
    timing,
)
from nirbridge.pipeline.map import map_network, map_retimed, place_partition
from nirbridge.pipeline.map_files import check_map, load_map, load_mapped, map_document, save_map, timing_of_map
from nirbridge.pipeline.options import OBJECTIVES, RETIME, MapOptions
from nirbridge.pipeline.partitioning import SPREADS, TRIED_NEURONS_MAX, check_fit
from nirbridge.pipeline.passes import apply_passes, format_passes, parse_passes, pass_class
from nirbridge.pipeline.profile import ProfileOptions, measured_rates, profile_network, read_data
from nirbridge.pipeline.quantize import quantize_network, quantize_plan, save_quantized, simulate_on_chip
from nirbridge.pipeline.recordings import (
    compare_recordings,
    load_inputs,
    load_recording,
    probes,
    read_inputs,
    save_recording,
    simulate_network,
    with_reading,
)
from nirbridge.pipeline.report import report_sources
from nirbridge.pipeline.saved_files import SavedFile, kind_of_file, load_saved
from nirbridge.pipeline.verify import VERIFY_STEPS, load_verification, save_verification, verify_network

__all__ = [
    "OBJECTIVES",
    "RETIME",
    "SPREADS",
    "TRIED_NEURONS_MAX",
    "VERIFY_STEPS",
    "BenchOptions",
    "MapOptions",
    "ProfileOptions",
    "SavedFile",
    "apply_passes",
    "assumes_dt",
    "backend_names",
    "bench_network",
    "can_run",
    "check_fit",
    "check_map",
    "check_program_folder",
    "compare_recordings",
    "default_chip",
    "differences",
    "emit_quantized",
    "emit_with",
    "emitter_options",
    "faults_of",
    "fingerprint",
    "fit_to_chip",
    "format_passes",
    "framework_of",
    "graph_of_text",
    "host_facts",
    "import_module",
    "install_lava",
    "is_emitted",
    "kind_of_file",
    "lava_status",
    "load_chip",
    "load_graph",
    "load_inputs",
    "load_labels",
    "load_map",
    "load_mapped",
    "load_network",
    "load_rates",
    "load_recording",
    "load_saved",
    "load_verification",
    "load_weights",
    "lower_model",
    "map_document",
    "map_network",
    "map_retimed",
    "measured_rates",
    "model_on_cores",
    "network_of_graph",
    "network_of_shapes",
    "parse_passes",
    "pass_class",
    "place_partition",
    "portability_of",
    "probes",
    "profile_network",
    "program_files",
    "quantize_network",
    "quantize_plan",
    "read_data",
    "read_inputs",
    "replicate_sources",
    "report_sources",
    "retime",
    "run_emitted",
    "save_graph",
    "save_map",
    "save_module",
    "save_network",
    "save_quantized",
    "save_recording",
    "save_verification",
    "simulate_network",
    "simulate_on_chip",
    "timing",
    "timing_of_map",
    "tool_states",
    "verify_network",
    "with_reading",
    "write_program",
]
