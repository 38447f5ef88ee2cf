"""Objects that each violate the Protocol of their kind in one way and are built-ins otherwise."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.errors import instance_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.partitioner.partition import CP_SAT, SEQUENTIAL
from nirbridge.passes import Promise, check_argument
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.by_name import FIXED, REFERENCE
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Recording

COUNT = itertools.count()


class Simulator:
    """The reference, with one thing changed."""

    takes = (Network,)

    def __call__(self, model: Any, inputs: Any, **options: Any) -> Any:
        return self.changed(REFERENCE(model, inputs, **options))

    def changed(self, found: Recording) -> Any:
        return found


class OtherResult(Simulator):
    def __call__(self, model: Any, inputs: Any, **options: Any) -> Any:
        return simulate(instance_of(model, Network, "model"), inputs, **options)


class LosesASpike(Simulator):
    def changed(self, found: Recording) -> Any:
        arrays = {key: array.copy() for key, array in found.arrays.items()}
        for (_, variable), array in arrays.items():
            if variable == "s" and array.any():
                array[tuple(np.argwhere(array)[-1])] = 0
        return Recording(MappingProxyType(arrays), found.meta)


class RecordsOutputsAlone(Simulator):
    def __call__(self, model: Any, inputs: Any, *, record: Any = None, **options: Any) -> Any:
        REFERENCE(model, inputs, record=record, **options)
        return REFERENCE(model, inputs, **options)


class ChecksNothing(Simulator):
    def __call__(self, model: Any, inputs: Any, **options: Any) -> Any:
        model.populations  # noqa: B018
        return super().__call__(model, inputs, **options)


class WritesIntoItsInputs(Simulator):
    def __call__(self, model: Any, inputs: Any, **options: Any) -> Any:
        found = super().__call__(model, inputs, **options)
        for array in inputs.values():
            array[:] = 1
        return found


class DiffersEachTime(Simulator):
    def changed(self, found: Recording) -> Any:
        arrays = {key: array + next(COUNT) for key, array in found.arrays.items()}
        return Recording(MappingProxyType(arrays), found.meta)


class SaysNothing(Simulator):
    def changed(self, found: Recording) -> Any:
        return Recording(found.arrays, MappingProxyType({"dt": found.meta["dt"], "steps": np.int64(3)}))


class TakesText(Simulator):
    takes = (str,)


def runs_another_method(network: Any, chip: Any, options: Any) -> Any:
    return CP_SAT(network, chip, options)


def loses_a_block(network: Any, chip: Any, options: Any) -> Any:
    found = SEQUENTIAL(network, chip, options)
    report = replace(found.report, method="broken", cores=found.report.cores - 1)
    return replace(found, blocks=found.blocks[:-1], report=report)


def returns_blocks(network: Any, chip: Any, options: Any) -> Any:
    return SEQUENTIAL(network, chip, options).blocks


def checks_nothing(network: Any, chip: Any, options: Any) -> Any:
    network.populations  # noqa: B018
    return loses_nothing(network, chip, options)


def loses_nothing(network: Any, chip: Any, options: Any) -> Any:
    found = SEQUENTIAL(network, chip, options)
    return replace(found, report=replace(found.report, method="broken"))


@dataclass(frozen=True)
class Rewrite:
    """A pass that changes nothing but what a subclass does."""

    pass_name: ClassVar[str] = "broken"
    promise: Promise = field(default="same", init=False, repr=False)

    def __call__(self, network: Any) -> Any:
        check_argument(self, network)
        return self.changed(network)

    def changed(self, network: Network) -> Any:
        return network


@dataclass
class CanBeChanged:
    pass_name: ClassVar[str] = "broken"
    promise: Promise = field(default="same", init=False, repr=False)

    def __call__(self, network: Any) -> Any:
        check_argument(self, network)
        return network


class HasAnotherName(Rewrite):
    pass_name = "louder"


class ReturnsItsNotes(Rewrite):
    def changed(self, network: Network) -> Any:
        return network.notes


class LosesAnOutput(Rewrite):
    def changed(self, network: Network) -> Any:
        outputs = {port.name for port in network.outputs}
        kept = tuple(p for p in network.projections if p.target not in outputs)
        return replace(network, outputs=(), projections=kept)


class RepeatsAPopulation(Rewrite):
    def changed(self, network: Network) -> Any:
        return replace(network, populations=(*network.populations, network.populations[0]))


class HalvesThresholds(Rewrite):
    def changed(self, network: Network) -> Any:
        found = []
        for p in network.populations:
            theta = p.neuron.theta
            found.append(p if theta is None else replace(p, neuron=replace(p.neuron, theta=freeze(theta / 2))))
        return replace(network, populations=tuple(found))


class CountsItsCalls(Rewrite):
    def changed(self, network: Network) -> Any:
        return replace(network, notes=(*network.notes, str(next(COUNT))))


class PromisesNothing(Rewrite):
    promise = "nothing"  # type: ignore[assignment]


class TakesAnything(Rewrite):
    def __call__(self, network: Any) -> Any:
        return replace(network, notes=network.notes)


class FailsInItsExample(Rewrite):
    @classmethod
    def example(cls, network: Network) -> Any:
        return cls(network.populations[99])  # type: ignore[call-arg]


@dataclass(frozen=True)
class Options:
    """No options."""


class Emitter:
    """A program that is its own model, with one thing changed."""

    takes = (QuantizedNetwork,)
    options = Options
    records: tuple[str, ...] = ("s", "u", "v")
    kind = "broken"
    models: dict[str, Any] = {}  # noqa: RUF012

    def emit(self, model: Any, options: Any = None) -> Any:
        instance_of(model, QuantizedNetwork, "model")
        instance_of(options or Options(), Options, "options")
        text = repr([(p.name, p.size) for p in model.populations])
        self.models[text] = model
        return make_artifact({"README.md": b"read me", "model": text.encode()}, {"kind": self.kind})

    def run(self, artifact: Artifact, inputs: Any, **options: Any) -> Any:
        return FIXED(self.models[artifact.files["model"].decode()], inputs, **options)


class NamesAnotherKind(Emitter):
    kind = "lava"


class HasNoReadme(Emitter):
    def emit(self, model: Any, options: Any = None) -> Any:
        files = dict(super().emit(model, options).files)
        return make_artifact({"model": files["model"]}, {"kind": "broken"})


class EmitsOtherBytes(Emitter):
    def emit(self, model: Any, options: Any = None) -> Any:
        files = super().emit(model, options).files
        return make_artifact({"README.md": str(next(COUNT)).encode(), "model": files["model"]}, {"kind": "broken"})


class ComputesOtherPotentials(Emitter):
    def run(self, artifact: Artifact, inputs: Any, **options: Any) -> Any:
        found = super().run(artifact, inputs, **options)
        arrays = {key: array + (key[1] == "v") for key, array in found.arrays.items()}
        return Recording(MappingProxyType(arrays), found.meta)


class CannotBeRun(Emitter):
    records = ()


class LeavesTheManifestOut(Emitter):
    def emit(self, model: Any, options: Any = None) -> Any:
        files = dict(super().emit(model, options).files)
        return Artifact({**files, "manifest.json": b'{"kind": "broken"}'})


class TakesAnyOptions(Emitter):
    def emit(self, model: Any, options: Any = None) -> Any:
        return super().emit(model)


class ReturnsFiles(Emitter):
    def emit(self, model: Any, options: Any = None) -> Any:
        return dict(super().emit(model, options).files)


class TakesMapsToo(Emitter):
    takes = (QuantizedNetwork, MappedNetwork)


def graph(module: Any, sample: Any, dt: float = 1e-3) -> Any:
    import nir

    weight = instance_of(module, np.ndarray, "module")
    shape = instance_of(sample, np.ndarray, "sample").shape
    ones = np.ones(len(weight))
    nodes = (nir.Input({"input": np.array(shape)}), nir.Linear(weight), nir.LIF(2 * dt * ones, ones, 0 * ones, ones))
    made = nir.NIRGraph.from_list(*nodes, nir.Output({"output": np.array([len(weight)])}))
    made.metadata["nirbridge:dt"] = dt
    return made


def draws_weights(module: Any, sample: Any, *, dt: float = 1e-3) -> Any:
    return graph(module + next(COUNT), sample, dt)


def ignores_dt(module: Any, sample: Any, *, dt: float = 1e-3) -> Any:
    return graph(module, sample)


def takes_no_dt(module: Any, sample: Any) -> Any:
    return graph(module, sample)


def reads_anything(module: Any, sample: Any, *, dt: float = 1e-3) -> Any:
    return graph(np.asarray(module.T).T, sample, dt)


def returns_a_dict(module: Any, sample: Any, *, dt: float = 1e-3) -> Any:
    return graph(module, sample, dt).nodes


def writes_into_its_sample(module: Any, sample: Any, *, dt: float = 1e-3) -> Any:
    made = graph(module, sample, dt)
    sample[:] = 1
    return made


OTHER_RESULT, LOSES_A_SPIKE, RECORDS_OUTPUTS_ALONE = OtherResult(), LosesASpike(), RecordsOutputsAlone()
CHECKS_NOTHING, WRITES, DIFFERS, SAYS_NOTHING = ChecksNothing(), WritesIntoItsInputs(), DiffersEachTime(), SaysNothing()
TAKES_TEXT, GOOD_SIMULATOR = TakesText(), Simulator()
OTHER_KIND, NO_README, OTHER_BYTES = NamesAnotherKind(), HasNoReadme(), EmitsOtherBytes()
OTHER_POTENTIALS, CANNOT_RUN, NO_MANIFEST = ComputesOtherPotentials(), CannotBeRun(), LeavesTheManifestOut()
ANY_OPTIONS, FILES, MAPS_TOO, GOOD_EMITTER = TakesAnyOptions(), ReturnsFiles(), TakesMapsToo(), Emitter()
