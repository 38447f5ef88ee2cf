"""Everything that a report is about: values of the stages of one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nirbridge.comparison.types import Comparison
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.network.model import Network
    from nirbridge.partitioner.model import Partition
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification


@dataclass(frozen=True, slots=True, eq=False)
class ReportSources:
    """Parts of a report; None or empty: there is none, and its sections are left out.

    ``network``: the model as it was read; ``mapped`` holds the network as it is mapped. ``recordings`` by name.
    ``remarks``: sentences on how the parts belong together.
    """

    title: str
    network: Network | None = None
    mapped: MappedNetwork | None = None
    partition: Partition | None = None
    quantized: QuantizedNetwork | None = None
    verification: Verification | None = None
    comparison: Comparison | None = None
    recordings: Mapping[str, Recording] = field(default_factory=lambda: MappingProxyType({}))
    remarks: tuple[str, ...] = ()

    @property
    def drawn(self) -> Network | None:
        """The network of the picture: that of the map where there is one, since its populations are those of cores."""
        return self.network if self.mapped is None else self.mapped.network
