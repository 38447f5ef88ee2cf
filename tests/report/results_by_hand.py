"""Handmade results with every kind of row and remark that their reports distinguish."""

from __future__ import annotations

import io
from types import MappingProxyType
from typing import Any

from rich.console import Console, RenderableType

from nirbridge.comparison.distances import Decisions
from nirbridge.comparison.types import Comparison, ComparisonRow, SpikeDistances
from nirbridge.quantization.model import AccumulatorBounds, FixedInput, LayerReport, QuantizedNetwork, VBound
from nirbridge.verification.bounds import LayerBound
from nirbridge.verification.verify import ComparedPair, Verification


def printed(report: RenderableType, width: int = 160) -> str:
    """A report as plain text, no line with spaces at its end."""
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(report)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def distances(a: int, b: int, common: int, either: int, outside: tuple[int, int] = (0, 0)) -> SpikeDistances:
    return SpikeDistances(False, a, b, common, either, a + b - 2 * common, 1.5, *outside)


SAME = ComparisonRow("in", "s", 2000, 0, "stored", True, spikes=distances(1200, 1200, 1200, 1200))
OTHER = ComparisonRow(
    "fc\n",
    "s",
    2000,
    1,
    "given",
    False,
    1234,
    (1, 2),
    (1.0, 0.0),
    spikes=distances(3000, 2999, 2999, 30000, (0, 3)),
    decisions=Decisions(1500, 1400, 1300, 1200),
    first_sample=3,
)
NEAR = ComparisonRow(
    "n", "s", 2000, 2, "estimated", False, 1300, (0,), (0.0, 1.0), spikes=distances(99999, 99999, 99999, 100000)
)
REAL = ComparisonRow("n", "v", 2000, 0, "stored", False, None, (7,), (0.25, 0.125), 0.125)
SHAPES = ComparisonRow("out", "v", 0, 0, "stored", False, problem="shapes (2,) and (3,)")
KEYS = tuple((f"k{i}", "v") for i in range(9))


def comparison(*rows: ComparisonRow, only_a: Any = (), only_b: Any = (), notes: Any = ()) -> Comparison:
    return Comparison(rows, tuple(only_a), tuple(only_b), 10.0, tuple(notes))


COMPARED = comparison(SAME, OTHER, NEAR, REAL, SHAPES, only_a=KEYS[:8], only_b=KEYS, notes=("a note",))


def verified(**changes: Any) -> Verification:
    """A verification that fails in a required pair and in one layer."""
    own: dict[str, Any] = {
        "chip": "loihi2",
        "steps": 2000,
        "input_said": "drawn",
        "latency": {"out": 1200, "fc\n": 0, "n": 1},
        "pairs": (
            ComparedPair("reference", "fixed", False, comparison(OTHER, NEAR)),
            ComparedPair("fixed", "mapped", True, comparison(SAME)),
            ComparedPair("fixed", "lava", True, comparison(REAL, SHAPES, only_a=KEYS, only_b=KEYS[:1])),
        ),
        "layers": (
            LayerBound("fc\n", 0.5, 0.25, 2.0, 3000, 1500, 0, None),
            LayerBound("n", 0.5, 0.75, 2.0, 10, 0, 1200, (1100, 0, 3)),
            LayerBound("out", 0.5, 0.25, None, 0, 0, 0, None),
        ),
        "recordings": {},
        "left_out": {"emulated": "not asked for"},
        "notes": ("a note",),
    }
    return Verification(**(own | changes))


V_BOUND = VBound(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def weights(source: str, bits: int, memory: int) -> dict[str, Any]:
    return {
        "source": source,
        "kind": "Dense",
        "bits": bits,
        "exponent": -1,
        "sign_mode": "mixed",
        "range": (-0.123456, 0.5),
        "integers": (-127, 126),
        "error": 0.01234,
        "synapse_bits": memory,
    }


def quantized(*, proved: bool) -> QuantizedNetwork:
    """Three layers: two projections and a measured share; none and a held membrane; an accuracy."""
    layers = (
        LayerReport(
            "fc",
            "lif",  # type: ignore[arg-type]
            AccumulatorBounds((-1000, 2000), (-1, 1), (-2, 2), proved),
            {"du": 1},
            (weights("in", 8, 1000), weights("fc\n", 4, 24)),
            V_BOUND,
            {"spikes_changed": 0.0123},
            ("emulated",),
        ),
        LayerReport("lost", "lif", AccumulatorBounds((0, 0), (0, 0), (0, 0), proved, 12000), {}, (), V_BOUND),  # type: ignore[arg-type]
        LayerReport(
            "out",
            "lif",  # type: ignore[arg-type]
            AccumulatorBounds((-5, 5), (-5, 5), (-5, 5), True),
            {},
            (weights("fc", 8, 10),),
            V_BOUND,
            {"accuracy": 0.5, "accuracy_reference": 0.75},
        ),
    )
    inputs = (FixedInput("in", (2,), 1, 1.0),)
    return QuantizedNetwork(
        "loihi2",
        1e-3,
        (),
        (),
        inputs,
        (),
        (),
        MappingProxyType({"in": 0, "fc": 3, "out": 2}),
        {"u_bits": 24},
        layers,
        ("a note",),
    )
