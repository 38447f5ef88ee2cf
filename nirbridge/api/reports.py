"""One report of several values."""

from __future__ import annotations

from nirbridge.api.arguments import checked
from nirbridge.api.models import FilePath


@checked
def write_report(path: FilePath, values: object) -> None:
    """Write one self-contained HTML page about a model, whole or not at all.

    Every value has sections of its own; a single value writes its page with ``value.report(path)``, too.

    Args:
        path: the page.
        values: one value, or a list of at most one ``Network``, ``MappedNetwork``, ``QuantizedNetwork``, ``Partition``,
            ``Verification`` and ``Comparison``, and any number of ``Recording``, all of one model.

    Raises:
        UsageError: a value that has no section, or two of a kind.
        FileError: the place cannot be written.

    Example:
        >>> net = nb.load("model.nir")
        >>> nb.write_report("report.html", [net, nb.map(net, "loihi2"), nb.quantize(net, "loihi2")])
    """
    from nirbridge.report.html.document import write_values

    write_values(path, tuple(values) if isinstance(values, list | tuple) else (values,))
