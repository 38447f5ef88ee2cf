"""The names that one distribution adds, as lazy text. ``BUILTIN``: nirbridge's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING

from nirbridge.chips.load import builtin_chips

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Plugin:
    """Names by kind, each with the place of its object.

    ``chips``: ``"package:path/to/file.toml"``, a file inside a package. All others: ``"module:attribute"``, imported
    when the name is used: an object that keeps to the Protocol of its kind in ``nirbridge.plugins``.

    * ``importers`` (``nirbridge import --from NAME``): an ``Importer``;
    * ``passes`` (``--passes TEXT``): a frozen dataclass, its fields the options, whose instances are a ``Pass``;
    * ``partitioners`` (``map --method NAME``): a ``Partitioner``;
    * ``emitters`` (``emit --to NAME``, ``verify --to NAME``): an ``Emitter``;
    * ``simulators`` (``simulate --backend NAME``): a ``Simulator``.
    """

    chips: Mapping[str, str] = field(default_factory=lambda: _NONE)
    importers: Mapping[str, str] = field(default_factory=lambda: _NONE)
    passes: Mapping[str, str] = field(default_factory=lambda: _NONE)
    partitioners: Mapping[str, str] = field(default_factory=lambda: _NONE)
    emitters: Mapping[str, str] = field(default_factory=lambda: _NONE)
    simulators: Mapping[str, str] = field(default_factory=lambda: _NONE)


KINDS: tuple[str, ...] = tuple(f.name for f in fields(Plugin))


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin that was found: its distribution, and either the plugin or why it cannot be loaded."""

    distribution: str
    plugin: Plugin | None
    trouble: str = ""


_FRAMEWORKS = "nirbridge.importers.frameworks"
_SIMULATORS = "nirbridge.simulators.by_name"
_METHODS = "nirbridge.partitioner.partition"
_MODULES = "nirbridge.emitters.modules.emit"
BUILTIN = Plugin(
    chips={name: f"nirbridge.chips:data/{name}.toml" for name in builtin_chips()},
    importers={
        "snntorch": f"{_FRAMEWORKS}.snntorch:from_snntorch",
        "norse": f"{_FRAMEWORKS}.norse:from_norse",
        "torch": "nirbridge.importers.ann.from_torch:from_torch",
        "sinabs": f"{_FRAMEWORKS}.sinabs:from_sinabs",
        "spikingjelly": f"{_FRAMEWORKS}.spikingjelly:from_spikingjelly",
        "rockpool": f"{_FRAMEWORKS}.rockpool:from_rockpool",
        "spyx": f"{_FRAMEWORKS}.spyx:from_spyx",
        "snnax": f"{_FRAMEWORKS}.snnax:from_snnax",
    },
    passes={
        "eliminate-dead": "nirbridge.passes.eliminate_dead:EliminateDead",
        "relay-pools": "nirbridge.passes.relay_pools:RelayPools",
        "relay-projection": "nirbridge.passes.relay_pools:RelayProjection",
        "replicate-source": "nirbridge.passes.replicate_source:ReplicateSource",
        "retime": "nirbridge.passes.retiming.retime:Retime",
        "uniform-delays": "nirbridge.passes.retiming.retime:UniformDelays",
    },
    partitioners={
        "sequential": f"{_METHODS}:SEQUENTIAL",
        "packed": f"{_METHODS}:PACKED",
        "cp-sat": f"{_METHODS}:CP_SAT",
    },
    emitters={
        "lava": "nirbridge.emitters.lava.emit:LAVA",
        "c": "nirbridge.emitters.c.emit:C",
        "sanafe": "nirbridge.emitters.sanafe.emit:SANAFE",
        "onnx": "nirbridge.emitters.onnx.emit:ONNX",
        **{name: f"{_MODULES}:{name.upper()}" for name in ("torch", "snntorch", "norse", "spikingjelly")},
        "jax": "nirbridge.emitters.jax.emit:JAX",
        "iree": "nirbridge.emitters.iree.emit:IREE",
        "openvino": "nirbridge.emitters.openvino.emit:OPENVINO",
        "triton": "nirbridge.emitters.triton.emit:TRITON",
        "inductor": "nirbridge.emitters.inductor.emit:INDUCTOR",
        **{name: f"nirbridge.emitters.steps.emit:{name.upper()}" for name in ("tvm", "tinygrad")},
        "verilog": "nirbridge.emitters.verilog.emit:VERILOG",
    },
    simulators={
        name: f"{_SIMULATORS}:{name.upper()}"
        for name in ("auto", "best", "reference", "numpy", "fast", "event", "dense", "fixed", "mapped")
    },
)
"""nirbridge's own names."""
OWN = LoadedPlugin("nirbridge", BUILTIN)

if TYPE_CHECKING:
    # A type checker holds every object behind these names to its Protocol; the test suite runs them.
    from nirbridge.emitters.c.emit import C
    from nirbridge.emitters.inductor.emit import INDUCTOR
    from nirbridge.emitters.iree.emit import IREE
    from nirbridge.emitters.jax.emit import JAX
    from nirbridge.emitters.lava.emit import LAVA
    from nirbridge.emitters.modules.emit import NORSE, SNNTORCH, SPIKINGJELLY, TORCH
    from nirbridge.emitters.onnx.emit import ONNX
    from nirbridge.emitters.openvino.emit import OPENVINO
    from nirbridge.emitters.sanafe.emit import SANAFE
    from nirbridge.emitters.steps.emit import TINYGRAD, TVM
    from nirbridge.emitters.triton.emit import TRITON
    from nirbridge.emitters.verilog.emit import VERILOG
    from nirbridge.importers import (
        from_norse,
        from_rockpool,
        from_sinabs,
        from_snnax,
        from_snntorch,
        from_spikingjelly,
        from_spyx,
        from_torch,
    )
    from nirbridge.partitioner.partition import CP_SAT, PACKED, SEQUENTIAL
    from nirbridge.passes import (
        EliminateDead,
        Pass,
        RelayPools,
        RelayProjection,
        ReplicateSource,
        Retime,
        UniformDelays,
    )
    from nirbridge.plugins.protocols import Emitter, Importer, Partitioner, Simulator
    from nirbridge.simulators import by_name as simulators

    _importers: tuple[Importer, ...] = (
        *(from_snntorch, from_norse, from_torch, from_sinabs, from_spikingjelly, from_rockpool),
        *(from_spyx, from_snnax),
    )
    _passes: tuple[type[Pass], ...] = (
        *(EliminateDead, RelayPools, RelayProjection, ReplicateSource, Retime, UniformDelays),
    )
    _partitioners: tuple[Partitioner, ...] = (SEQUENTIAL, PACKED, CP_SAT)
    _emitters: tuple[Emitter, ...] = (
        *(
            LAVA,
            C,
            SANAFE,
            ONNX,
            TORCH,
            SNNTORCH,
            NORSE,
            SPIKINGJELLY,
            JAX,
            IREE,
            OPENVINO,
            TVM,
            TRITON,
            INDUCTOR,
            TINYGRAD,
            VERILOG,
        ),
    )
    _simulators: tuple[Simulator, ...] = (
        *(simulators.AUTO, simulators.BEST, simulators.REFERENCE, simulators.NUMPY, simulators.FAST, simulators.EVENT),
        *(simulators.DENSE, simulators.FIXED, simulators.MAPPED),
    )
