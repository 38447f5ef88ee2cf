"""The contract of passes, and the runner that verifies the network before and after each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Literal, Protocol

from nirbridge.errors import Bug, Diagnostic, NirbridgeError, instance_of, quoted, type_text
from nirbridge.network import Network, check_network, diagnose_network

Promise = Literal["same", "later", "changed"]
"""Outputs after a pass: those before, bit for bit; those before, a constant number of time steps later (up to the
rounding of sums in another order); or others, as the class says."""

REPORT = "please report it to the authors of the pass"


class Pass(Protocol):
    """A rewrite of a network: an instance of a frozen dataclass whose fields are its options.

    ``pass_name`` is the registered name, in kebab-case. Inputs and outputs of the network are kept. An optional class
    method ``example(network) -> Self | None`` gives an instance for that network, for tests of a pass with required
    options (None: there is nothing to rewrite).
    """

    pass_name: ClassVar[str]

    @property
    def promise(self) -> Promise:
        """How the outputs of the rewritten network relate to those of the original one."""
        ...

    def __call__(self, network: Network, /) -> Network:
        """The rewritten network; raises UsageError for options that do not fit it, ModelError for its structure."""
        ...


AfterPass = Callable[[Pass, Network], None]
"""Called with each pass and the network after it."""


def run_passes(network: Network, pipeline: Iterable[Pass], *, after: AfterPass | None = None) -> Network:
    """The network after every pass of ``pipeline`` in order, verified before the first and after each.

    Args:
        network: the network to rewrite.
        pipeline: passes; none returns the network as it is.
        after: called after each pass, for example to print the network.

    Raises:
        ModelError: the network is not valid, every problem is listed; or a pass refuses its structure.
        UsageError: options of a pass that do not fit the network.
        Bug: a pass failed or returned no valid network; the pass is named.
    """
    check_network(instance_of(network, Network, "network of a pass pipeline", "import or load the model first"))
    for place, rewrite in enumerate(pipeline, start=1):
        network = _verified(f"pass {place}, {quoted(rewrite.pass_name)}", rewrite, network)
        if after is not None:
            after(rewrite, network)
    return network


def check_argument(rewrite: Pass, network: object) -> None:
    """Raises UsageError where a pass is called with something else than a network."""
    instance_of(network, Network, f"network of pass {quoted(rewrite.pass_name)}", "import or load the model first")


def _verified(subject: str, rewrite: Pass, network: Network) -> Network:
    try:
        changed: object = rewrite(network)
    except (NirbridgeError, ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:
        raise Bug.of(subject, f"{type(error).__name__}: {error}", "", REPORT) from error
    return checked_result(subject, changed)


def checked_result(subject: str, changed: object) -> Network:
    """The result of a pass, if it is a valid network. Raises a Bug that names the pass."""
    if not isinstance(changed, Network):
        raise Bug.of(subject, f"it returned {type_text(changed)}", "a pass returns a Network", REPORT)
    problems = tuple(diagnose_network(changed))
    if problems:
        found = f"the network that it returned has {len(problems)} problem{'s' * (len(problems) > 1)}"
        raise Bug(Diagnostic(subject, found, "a pass maps valid networks to valid ones", REPORT), *problems)
    return changed
