"""One Protocol per kind of plugin, for the object of a name; nirbridge's own objects keep to the same ones.

That of passes is ``nirbridge.passes.base.Pass``, since the runner of passes needs it.

``nirbridge.testing.check_conformance`` holds an object to its Protocol at run time; a type checker does it before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from nirbridge._types import Progress

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.mapping.model import Model
    from nirbridge.network.model import Network
    from nirbridge.partitioner.model import Partition
    from nirbridge.partitioner.searches import PartitionOptions
    from nirbridge.simulators.inputs import Input
    from nirbridge.simulators.types import Probe, Recording


class Importer(Protocol):
    """A trained module of a framework as a NIR graph; an importer may take further options, all with defaults."""

    def __call__(self, module: Any, sample: Any, /, *, dt: float = ...) -> Any:
        """The ``nir.NIRGraph`` of a module.

        Args:
            module: what the user named; it is left unchanged.
            sample: one input of the module, without meaning but for its shape and type.
            dt: length of a time step in seconds, passed only where the user gave it.

        Raises:
            NirbridgeError: the module cannot be represented exactly, or is none of this framework.
            ModuleNotFoundError: the framework is not installed.
        """
        ...


class Partitioner(Protocol):
    """A way to cut the populations of a network into blocks, one block per core."""

    def __call__(self, network: Network, chip: Chip, options: PartitionOptions, /) -> Partition:
        """Blocks that hold every neuron once, within the limits of a core; ``report.method`` is the registered name.

        ``options.method`` is that name too, and is not to be interpreted. Raises DoesNotFit, UsageError.
        """
        ...


class Simulator(Protocol):
    """A way to run a model. All simulators of one type of model give the same bits where every sum is exact."""

    @property
    def takes(self) -> tuple[type, ...]:
        """The types of model it runs: of ``Network``, ``QuantizedNetwork`` and ``MappedNetwork``."""
        ...

    def __call__(
        self,
        model: Model,
        inputs: Mapping[str, Input] | Input,
        /,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = ...,
    ) -> Recording:
        """Run the model on the inputs.

        Args:
            model: what to run; it is left unchanged.
            inputs: by input name or one alone: ``[steps, *shape]`` or ``[steps, batch, *shape]``.
            steps: number of time steps; default: the length of the inputs, which are zero-padded beyond their end.
            record: what to record; default: every output.
            progress: called with a stage and the completed fraction.

        Raises:
            UsageError: another type of model, or inputs, steps or probes that the model does not take.
        """
        ...


class Emitter(Protocol):
    """A target: a model as a self-contained program for another tool, and that program run.

    A program of a ``QuantizedNetwork`` or a ``MappedNetwork`` computes what the fixed-point simulator computes, bit for
    bit; ``nirbridge verify --to NAME`` checks it for every emitter. A program of a ``Network`` gives the bits of the
    reference where every sum is exact.

    ``summary`` is optional: a line for the lists of targets in the help of commands. So are two things for
    ``nirbridge.bench``: an attribute ``one_sample_at_a_time``, True where a program runs
    the samples of a batch one after the other, and the time that its time steps took, told within ``run`` with
    ``nirbridge.emitters.own_time``.
    So is ``synthesize(artifact, *, progress)``, for programs that are circuits: it returns the program with its figures
    on a device among its files, and these figures (``nirbridge.emitters.verilog.synthesis.Synthesis``); and
    ``prove(artifact, progress)``: by population "proved", or why the program's neurons are not shown to be their rule
    for every input.
    """

    @property
    def takes(self) -> tuple[type, ...]:
        """The types of model it emits: of ``Network``, ``QuantizedNetwork`` and ``MappedNetwork``."""
        ...

    @property
    def options(self) -> type[Any]:
        """A frozen dataclass, every field of which has a default: the options of ``emit``, and its flags."""
        ...

    @property
    def records(self) -> tuple[str, ...]:
        """The variables of a population that ``run`` records, of ``s``, ``u`` and ``v``; empty: nothing can run it."""
        ...

    def emit(self, model: Model, options: Any = None, /) -> Artifact:
        """The files of the program, the same for the same model and options.

        Args:
            model: what to emit; it is left unchanged. A ``MappedNetwork`` is emitted core by core where that differs.
            options: an instance of ``self.options``; None: the defaults.

        Returns:
            An artifact whose manifest names the emitter as ``kind``, with a README.md among its files.

        Raises:
            UsageError: another type of model, or other options.
            ModelError: everything that the target cannot compute.
        """
        ...

    def run(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        /,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = ...,
    ) -> Recording:
        """Run the program on the inputs; arguments as of a ``Simulator``.

        No process and no file remains after the run. A run that makes no progress is ended.

        Raises:
            UsageError: the tool is not installed, nothing runs such a program (``records`` is empty), or inputs, steps
                or probes that the program does not take.
            ModelError: the program failed; its log is in the message.
        """
        ...
