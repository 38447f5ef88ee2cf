"""The conformance suite: every name of every kind, called through the registry on small networks.

nirbridge's own tests run it on its own names, plugin authors run it on theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nirbridge.errors import NotConforming, UsageError, quoted
from nirbridge.network.model import Network
from nirbridge.plugins import KINDS, LoadedPlugin, Plugin, get
from nirbridge.testing import kinds
from nirbridge.testing.examples import example_networks
from nirbridge.testing.faults import Faults

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
        kinds.check_chip(faults, name, plugins)
    elif kind == "importers":
        if example is None:
            raise UsageError.of(
                faults.subject, "has no example", "an importer needs a module", "give example=Example()"
            )
        kinds.check_importer(faults, get("importers", name, plugins), example.module, example.sample, example.options)
    elif kind == "emitters":
        kinds.check_emitter(faults, get("emitters", name, plugins), name, examples, run=run)
    else:
        check = {
            "passes": kinds.check_pass,
            "partitioners": kinds.check_partitioner,
            "simulators": kinds.check_simulator,
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
