"""Importers of the frameworks by name, and the framework of a module, seen from the classes of its parts.

Nothing here imports a framework.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge.errors import UsageError, quoted
from nirbridge.files.attributes import load_attribute
from nirbridge.importers.emitted import emitted_dt

if TYPE_CHECKING:
    from nirbridge.importers.neuron_specs import NeuronSpecs

FRAMEWORKS = MappingProxyType(
    {
        "snntorch": "nirbridge.importers.frameworks.snntorch:from_snntorch",
        "norse": "nirbridge.importers.frameworks.norse:from_norse",
        "torch": "nirbridge.importers.ann.from_torch:from_torch",
        "sinabs": "nirbridge.importers.frameworks.sinabs:from_sinabs",
        "spikingjelly": "nirbridge.importers.frameworks.spikingjelly:from_spikingjelly",
        "rockpool": "nirbridge.importers.frameworks.rockpool:from_rockpool",
    }
)
"""Framework -> its importer, as "module:function"."""
JAX_FRAMEWORKS = MappingProxyType(
    {
        "spyx": "nirbridge.importers.frameworks.spyx:from_spyx",
        "snnax": "nirbridge.importers.frameworks.snnax:from_snnax",
    }
)
"""Those whose modules are of JAX: read by their parameters, not run."""

_STORE_DT = ("norse", "rockpool")


def stored_dt(framework: str, module: Any) -> float | None:
    """Seconds per time step that a module was built with; None where its framework counts time steps alone.

    Of a module that nirbridge wrote: that of its network.
    """
    written = emitted_dt(module)
    if written is not None:
        return written
    if framework not in _STORE_DT:
        return None
    from nirbridge.importers.neuron_specs import module_dt

    return module_dt(module, load_attribute(f"nirbridge.importers.frameworks.{framework}:neuron_specs")())


PLAIN = "torch"
"""The framework of modules without spikes: their importer converts them."""


def is_torch_module(value: object) -> bool:
    """True for a ``torch.nn.Module``; torch is not imported for it."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def framework_of(module: object, known: Iterable[str] = FRAMEWORKS) -> str | None:
    """The framework that a torch module has parts of; ``torch`` where it has parts of none, None for other values.

    Of a module of JAX: that of its class.

    Args:
        module: any value.
        known: names of importers, each that of the package whose classes it reads.

    Raises:
        UsageError: parts of several frameworks.
    """
    if not is_torch_module(module):
        packages = packages_of(module)
        return next((name for name in JAX_FRAMEWORKS if name in packages and name in known), None)
    packages = {package for part in _parts(module) for package in packages_of(part)}
    matching = [name for name in known if name in packages and name != PLAIN]
    if len(matching) > 1:
        names = " and of ".join(matching)
        raise UsageError.of(
            f"module {quoted(type(module).__name__)}",
            f"it has parts of {names}",
            "a module is imported as one framework",
            f"say which: framework={matching[0]!r}",
        )
    return matching[0] if matching else PLAIN


def packages_of(part: object) -> set[str]:
    """The packages of the class of a module and of its bases."""
    return {cls.__module__.partition(".")[0] for cls in type(part).__mro__}


def neuron_specs_in(module: object) -> dict[str, NeuronSpecs]:
    """The neuron classes of each framework that a torch module has parts of."""
    packages = {package for part in _parts(module) for package in packages_of(part)}
    names = [name for name in FRAMEWORKS if name in packages and name != PLAIN]
    return {name: load_attribute(f"nirbridge.importers.frameworks.{name}:neuron_specs")() for name in names}


def check_framework(module: object, framework: str) -> None:
    """Raises UsageError where a torch module has neurons of other frameworks and none of this one."""
    from nirbridge.importers.neuron_specs import neuron_spec_of

    parts = list(_parts(module))
    found = [
        name
        for name, specs in neuron_specs_in(module).items()
        if any(neuron_spec_of(part, specs) is not None for part in parts)
    ]
    if found and framework not in found:
        raise UsageError.of(
            f"module {quoted(type(module).__name__)}",
            f"it has neurons of {' and of '.join(found)}, none of {framework}",
            "a module is imported as the framework of its neurons",
            importer_hint(found),
        )


def importer_hint(packages: Iterable[str]) -> str:
    """The hint that names the importer of the first framework among some packages."""
    name = next((name for name in FRAMEWORKS if name in packages and name != PLAIN), None)
    return (
        f"use --from {name}, framework={name!r} or from_{name}" if name else "import it with its framework's importer"
    )


def _parts(module: object) -> Iterable[Any]:
    torch: Any = sys.modules["torch"]
    return torch.nn.Module.modules(module)  # a framework may have another method of that name
