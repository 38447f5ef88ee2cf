"""The conformance suite: every name of every kind, called through the registry on small networks.

nirbridge's own tests run it on its own names, plugin authors run it on theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.load import chip_from_dict
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, ModelError, NotConforming, UsageError, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.check import diagnose_network
from nirbridge.network.model import Network
from nirbridge.plugins import KINDS, Importer, LoadedPlugin, Partitioner, Plugin, find_chip, get
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Probe
from nirbridge.testing.examples import DT, STEPS, example_chips, example_inputs, example_models, example_networks
from nirbridge.testing.faults import FAILED, Faults, fingerprint
from nirbridge.testing.runs import check_refusals, check_runs

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Example:
    """Input of the check of an importer: a module of its framework, a sample, and options that the module needs."""

    module: Any
    sample: Any
    options: Mapping[str, Any] = field(default_factory=lambda: _NONE)


def check_conformance(
    kind: str,
    name: str,
    plugins: tuple[LoadedPlugin, ...] | None = None,
    *,
    example: Example | None = None,
    networks: Sequence[Network] | None = None,
    run: bool = True,
) -> None:
    """Check the object of a name against the Protocol of its kind.

    Checked are attributes, types of results, values against the reference, that two calls give the same, that arguments
    are left unchanged, and that wrong arguments raise errors of nirbridge.

    Args:
        kind: "chips", "importers", "passes", "partitioners", "emitters" or "simulators".
        name: a name of that kind.
        plugins: the plugins to search besides nirbridge's own names; None: those of the environment.
        example: for an importer: what to import.
        networks: the networks to run; default: ``example_networks()``, whose sums are exact.
        run: False: programs of an emitter are emitted and not run, for example where their tool is not installed.

    Raises:
        NotConforming: every fault.
        UsageError: an unknown kind or name, an object of another form, an importer without an example.
        ModuleNotFoundError: a package that the object needs is not installed.
    """
    if kind not in KINDS:
        raise UsageError.of(f"kind {quoted(kind)}", "unknown", f"known: {', '.join(KINDS)}")
    examples = tuple(example_networks() if networks is None else networks)
    faults = Faults(f"{kind.removesuffix('es') if kind == 'passes' else kind.removesuffix('s')} {quoted(name)}")
    if kind == "chips":
        check_chip(faults, name, plugins)
    elif kind == "importers":
        if example is None:
            raise UsageError.of(
                faults.subject, "has no example", "an importer needs a module", "give example=Example()"
            )
        check_importer(faults, get("importers", name, plugins), example.module, example.sample, example.options)
    elif kind == "emitters":
        check_emitter(faults, get("emitters", name, plugins), name, examples, run=run)
    else:
        check = {
            "passes": check_pass,
            "partitioners": check_partitioner,
            "simulators": check_simulator,
        }
        check[kind](faults, get(kind, name, plugins), name, examples)
    faults.raise_if_any()


def check_plugin(
    plugin: Plugin,
    *,
    distribution: str = "this plugin",
    examples: Mapping[str, Example] | None = None,
    run: bool = True,
) -> None:
    """Check every name of a plugin against its Protocol, installed or not.

    ``examples``: for each importer, by name. ``run`` as of ``check_conformance``.

    Raises:
        NotConforming: every fault of every name.
        UsageError: as of ``check_conformance``.
    """
    loaded = (LoadedPlugin(distribution, plugin),)
    problems = []
    for kind in KINDS:
        for name in getattr(plugin, kind):
            try:
                check_conformance(kind, name, loaded, example=(examples or {}).get(name), run=run)
            except NotConforming as error:
                problems += error.problems
    NotConforming.raise_all(problems)


# -- kinds ---------------------------------------------------------------------------------------------------------
# The checks of each kind of plugin, one function per kind.

MODELS: tuple[type, ...] = (Network, QuantizedNetwork, MappedNetwork)
WRONG: tuple[Any, ...] = (None, "model", 3, object())
"""Values that are no model, network, chip or options."""


def check_chip(faults: Faults, name: str, plugins: tuple[LoadedPlugin, ...] | None) -> None:
    """A chip file is read twice alike, has its own name, and is rebuilt from its record."""
    chip = faults.call("reading it", partial(find_chip, name, plugins))
    if not faults.is_a("reading it", chip, Chip):
        return
    if chip.name != name:
        faults.add(f"its file says name {chip.name!r}", f"the registered name, {name!r}")
    faults.repeatable("its file", chip, faults.call("reading it", partial(find_chip, name, plugins)))
    rebuilt = faults.call("building it from its record", partial(chip_from_dict, chip.record))
    if rebuilt is not FAILED and rebuilt != chip:
        faults.add("its record builds another chip", "a saved map rebuilds its chip")


def check_importer(faults: Faults, importer: Importer, module: Any, sample: Any, options: Mapping[str, Any]) -> None:
    """The same valid graph twice; the sample unchanged; ``dt`` honoured or refused; non-modules refused."""
    import nir

    before = fingerprint(sample)
    graph = faults.call("an import", lambda: importer(module, sample, **options))
    if faults.is_a("an import", graph, nir.NIRGraph):
        again = faults.call("an import", lambda: importer(module, sample, **options))
        faults.repeatable("the graph", graph, again)
        _lower(faults, graph)
        _check_dt(faults, importer, module, sample, options)
    faults.unchanged("the sample", before, sample)
    for wrong in WRONG:
        faults.refuses(f"the module {wrong!r:.40}", lambda wrong=wrong: importer(wrong, sample, **options))
    faults.refuses("the sample 'sample'", lambda: importer(module, "sample", **options))


def _lower(faults: Faults, graph: Any) -> Any:
    from nirbridge.network.nir.from_nir import from_nir

    return faults.call("reading its graph as a network", partial(from_nir, graph))


def _check_dt(faults: Faults, importer: Importer, module: Any, sample: Any, options: Mapping[str, Any]) -> None:
    try:
        graph = importer(module, sample, **{**options, "dt": 2 * DT})
    except (UsageError, ModelError):
        return  # a framework whose modules hold their own time step
    except Exception as error:
        faults.add(f"dt raised {type(error).__name__}: {error}", "an importer takes dt, in seconds")
        return
    network = _lower(faults, graph)
    if network is not FAILED and network.dt != 2 * DT:
        faults.add(f"with dt={2 * DT:g} the graph has a time step of {network.dt:g} s", "dt is the time step")


def check_pass(faults: Faults, cls: Any, name: str, networks: Sequence[Network]) -> None:
    """A frozen dataclass of its name, whose instances rewrite valid networks into valid ones with the same ports."""
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        faults.add("is no frozen dataclass", "the fields of a frozen dataclass are the options of a pass")
        return
    if getattr(cls, "pass_name", None) != name:
        faults.add(f"pass_name is {getattr(cls, 'pass_name', None)!r}", f"the registered name, {name!r}")
    for network in networks:
        make = getattr(cls, "example", None)
        rewrite = faults.call("an example", cls if make is None else partial(make, network))
        if rewrite is not None and rewrite is not FAILED:
            check_rewrite(faults, rewrite, network)
            for wrong in WRONG:
                faults.refuses(f"the network {wrong!r:.40}", partial(rewrite, wrong))


def check_partitioner(faults: Faults, partitioner: Partitioner, name: str, networks: Sequence[Network]) -> None:
    """Legal partitions of every network for every chip, the same twice, under their own name."""
    from nirbridge.partitioner import PartitionOptions

    options = PartitionOptions(method=name, effort="fast")
    for chip in example_chips():
        for network in networks:
            _check_partition(faults, partitioner, name, network, chip, options)
    network, chip = networks[0], example_chips()[-1]
    for wrong in WRONG:
        label = f"{wrong!r:.40}"
        faults.refuses(f"the network {label}", lambda wrong=wrong: partitioner(wrong, chip, options))
        faults.refuses(f"the chip {label}", lambda wrong=wrong: partitioner(network, wrong, options))
        if wrong is not None:
            faults.refuses(f"the options {label}", lambda wrong=wrong: partitioner(network, chip, wrong))
    record: Any = chip.record
    tiny = chip_from_dict({**record, "mesh": {**record["mesh"], **_ONE_CORE}})
    try:
        partitioner(network, tiny, options)
    except DoesNotFit:
        return
    except Exception as error:
        faults.add(f"a chip that is too small raised {type(error).__name__}: {error}", "it raises DoesNotFit")
    else:
        faults.add("a network was put on a chip that is too small", "it raises DoesNotFit")


_ONE_CORE = {"width_tiles": 1, "height_tiles": 1, "cores_per_tile": 1, "chips_max": 1}


def _check_partition(
    faults: Faults, partitioner: Partitioner, name: str, network: Network, chip: Chip, options: Any
) -> None:
    from nirbridge.mapping.checker.check import diagnose_mapping
    from nirbridge.partitioner import Partition
    from nirbridge.pipeline import place_partition

    before = fingerprint((network, chip))
    partition = faults.call("partitioning", lambda: partitioner(network, chip, options))
    if not faults.is_a("partitioning", partition, Partition):
        return
    faults.unchanged("the network or the chip", before, (network, chip))
    faults.repeatable(
        "the partition", partition, faults.call("partitioning", lambda: partitioner(network, chip, options))
    )
    if partition.report.method != name:
        faults.add(f"report.method is {partition.report.method!r}", f"the registered name, {name!r}")
    mapped = faults.call("placing its blocks", partial(place_partition, network, chip, partition))
    if mapped is not FAILED:
        for problem in list(diagnose_mapping(mapped))[:4]:
            faults.add(f"the checker refuses its partition: {problem}", "blocks are legal and hold every neuron once")


def check_simulator(faults: Faults, simulator: Any, name: str, networks: Sequence[Network]) -> None:
    """Recordings that are those of the reference, for every type of model that it takes; other types refused."""
    for kind in _takes(faults, simulator):
        for model in example_models(kind, networks):
            run = partial(simulator, model)
            before = fingerprint(model)
            check_runs(faults, run, model, ("s", "v") if kind is Network else ("s", "u", "v"))
            faults.unchanged("the model", before, model)
        check_refusals(faults, partial(simulator, example_models(kind, networks)[0]), example_models(kind, networks)[0])
    inputs = example_inputs(networks[0])
    for wrong in (*WRONG, *_others(simulator.takes, networks)):
        faults.refuses(f"a model of type {type(wrong).__name__}", lambda wrong=wrong: simulator(wrong, inputs))


def _takes(faults: Faults, plugin: Any) -> tuple[type, ...]:
    takes = plugin.takes
    if isinstance(takes, tuple) and takes and set(takes) <= set(MODELS):
        return takes
    faults.add(f"takes is {takes!r:.80}", "takes names types of model: Network, QuantizedNetwork, MappedNetwork")
    return ()


def _others(takes: tuple[type, ...], networks: Sequence[Network]) -> list[Any]:
    """Models of the types that are not taken."""
    return [example_models(kind, networks)[0] for kind in MODELS if kind not in takes]


def check_emitter(faults: Faults, emitter: Any, name: str, networks: Sequence[Network], *, run: bool) -> None:
    """Two identical programs with a manifest and a README, whose results equal the reference."""
    from nirbridge.testing.runs import check_programs

    options = emitter.options
    if not (isinstance(options, type) and dataclasses.is_dataclass(options)):
        faults.add(f"options is {options!r:.80}", "options is a frozen dataclass")
    else:
        faults.call("its options without arguments", options)
    if not set(emitter.records) <= {"s", "u", "v"}:
        faults.add(f"records is {emitter.records!r:.80}", "records names variables of a population, of s, u and v")
    for kind in _takes(faults, emitter):
        check_programs(faults, emitter, name, example_models(kind, networks), run=run)
    for wrong in (*WRONG, *_others(emitter.takes, networks)):
        faults.refuses(f"a model of type {type(wrong).__name__}", partial(emitter.emit, wrong))
    for kind in _takes(faults, emitter):
        wrong = object()
        faults.refuses("options of another type", partial(emitter.emit, example_models(kind, networks)[0], wrong))


# -- passes --------------------------------------------------------------------------------------------------------

LATEST = 2 * STEPS
"""Time steps by which outputs may be later."""


def check_rewrite(faults: Faults, rewrite: Any, network: Network) -> None:
    """A valid network with the same ports, the same twice; the argument unchanged; outputs as the pass promises."""
    before = fingerprint(network)
    changed = faults.call("the pass", partial(rewrite, network))
    faults.unchanged("the network", before, network)
    if not faults.is_a("the pass", changed, Network):
        return
    problems = list(diagnose_network(changed))
    for problem in problems[:4]:
        faults.add(f"it returned a network that is not valid: {problem}", "valid networks stay valid")
    ports = [(p.name, p.shape) for p in (*network.inputs, *network.outputs)]
    if [(p.name, p.shape) for p in (*changed.inputs, *changed.outputs)] != ports:
        faults.add("it changed inputs or outputs", "inputs and outputs of the network are kept")
        return
    faults.repeatable("the network", changed, faults.call("the pass", partial(rewrite, network)))
    if not problems:
        _check_promise(faults, rewrite, network, changed)


def _check_promise(faults: Faults, rewrite: Any, network: Network, changed: Network) -> None:
    promise = getattr(rewrite, "promise", None)
    if promise not in ("same", "later", "changed"):
        faults.add(f"promise is {promise!r}", "promise is 'same', 'later' or 'changed'")
    if promise not in ("same", "later"):
        return
    before, after = _outputs(network), _outputs(changed)
    for name, values in before.items():
        latencies = range(1 if promise == "same" else LATEST + 1)
        if not any(np.array_equal(after[name][late : late + STEPS], values[:STEPS]) for late in latencies):
            faults.add(f"output {name!r} is another", f"the pass promises {promise!r}")


def _outputs(network: Network) -> dict[str, Array]:
    from nirbridge.simulators.simulate import simulate

    every = [Probe(port.name, ("s",)) for port in network.outputs]
    outcome = simulate(network, example_inputs(network), steps=STEPS + LATEST, record=every, backend="reference")
    return {node: values for (node, _), values in outcome.recording.arrays.items()}
