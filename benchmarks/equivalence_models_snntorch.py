"""snnTorch's neurons for the equivalence page: every supported class, with every reset and reset delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.equivalence_model import Model, quiet, step_by_step

with quiet():
    import snntorch as snn

EARLY_SUBTRACTION = "early-subtraction"
EARLY = (
    f"refused, unless accepted as `{EARLY_SUBTRACTION}`, as here: snnTorch tests the remaining potential a second time"
)


def _spread(low: float, high: float) -> Callable[[int], Any]:
    return lambda n: torch.linspace(low, high, n)


def _itself(n: int) -> int:
    return n


def _row(
    name: str, kind: str, *, threshold: Any = 1.5, scale: float = 1.0, early: bool = False, **options: Any
) -> Model:
    """12 - 16 - 8 with such neurons; an option may be a function of their number."""

    def neurons(n: int) -> Any:
        given = {k: v(n) if callable(v) else v for k, v in options.items()}
        fitting = threshold(n) if callable(threshold) else threshold
        return getattr(snn, kind)(threshold=fitting, init_hidden=True, **given)

    def make() -> Any:
        return nn.Sequential(nn.Linear(12, 16), neurons(16), nn.Linear(16, 8), neurons(8))

    more: dict[str, Any] = {"is_exact": False, "reason": EARLY, "accept": (EARLY_SUBTRACTION,)} if early else {}
    return Model("snnTorch", name, make, step_by_step, scale=scale, **more)


def leaky_models() -> Iterator[Model]:
    """Leaky and Lapicque."""
    zero, none = {"reset_mechanism": "zero"}, {"reset_mechanism": "none"}
    half = lambda n: torch.tensor([0.0, 0.5] * (n // 2))  # noqa: E731
    learned = {"learn_beta": True, "learn_threshold": True}
    yield _row("Leaky, subtract, late (the default)", "Leaky", beta=0.9)
    yield _row("Leaky, subtract, early", "Leaky", beta=0.8, reset_delay=False, early=True)
    yield _row("Leaky, zero, late", "Leaky", beta=0.8, **zero)
    yield _row("Leaky, zero, early", "Leaky", beta=0.8, reset_delay=False, **zero)
    yield _row("Leaky, none, late", "Leaky", beta=0.7, threshold=2.0, **none)
    yield _row("Leaky, none, early", "Leaky", beta=0.7, threshold=2.0, reset_delay=False, **none)
    yield _row("Leaky, beta and threshold per neuron, learned", "Leaky", beta=_spread(0.3, 0.95),
               threshold=_spread(0.5, 2.0), **learned)  # fmt: skip
    yield _row("Leaky, zero, beta and threshold per neuron", "Leaky", beta=_spread(0.3, 0.95),
               threshold=_spread(0.5, 2.0), **zero)  # fmt: skip
    yield _row("Leaky, learned beta above 1 (clamped)", "Leaky", beta=1.25, learn_beta=True, threshold=2.0)
    yield _row("Leaky, beta = 0 in half of the neurons", "Leaky", beta=half)
    yield _row("Leaky, graded spikes (factor 0.75)", "Leaky", beta=0.8, graded_spikes_factor=0.75)
    yield _row("Lapicque, subtract", "Lapicque", beta=0.8, threshold=0.4)
    yield _row("Lapicque, zero, R and C given", "Lapicque", R=2.0, C=4.0, time_step=1.0, threshold=0.5, **zero)
    yield _row("Lapicque, none", "Lapicque", R=2.0, C=3.0, time_step=1.0, threshold=1.0, **none)


def current_models() -> Iterator[Model]:
    """Synaptic, RLeaky, RSynaptic."""
    zero, none, early = {"reset_mechanism": "zero"}, {"reset_mechanism": "none"}, {"reset_delay": False}
    both, back = {"alpha": 0.5, "beta": 0.7}, {"beta": 0.8, "linear_features": _itself}
    yield _row("Synaptic, subtract, late", "Synaptic", **both)
    yield _row("Synaptic, subtract, early", "Synaptic", **both, **early, early=True)
    yield _row("Synaptic, zero, late", "Synaptic", **both, **zero)
    yield _row(
        "Synaptic, zero, early, alpha per neuron", "Synaptic", alpha=_spread(0.2, 0.6), beta=0.7, **zero, **early
    )
    yield _row("Synaptic, none", "Synaptic", **both, threshold=4.0, **none)
    yield _row("Synaptic, alpha and beta learned", "Synaptic", **both, learn_alpha=True, learn_beta=True)
    yield _row("RLeaky, subtract, late (the default)", "RLeaky", **back)
    yield _row("RLeaky, subtract, early", "RLeaky", **back, **early, early=True)
    yield _row("RLeaky, zero, late", "RLeaky", **back, **zero)
    yield _row("RLeaky, zero, early", "RLeaky", **back, **zero, **early)
    yield _row("RLeaky, none", "RLeaky", **back, **none, threshold=3.0)
    yield _row("RLeaky, one to one, weights per neuron", "RLeaky", beta=0.6, all_to_all=False, V=_spread(-0.5, 0.5))
    yield _row("RSynaptic, subtract, late", "RSynaptic", alpha=0.4, beta=0.6, linear_features=_itself)
    yield _row("RSynaptic, zero, late", "RSynaptic", alpha=0.4, beta=0.6, linear_features=_itself, **zero)
    yield _row("RSynaptic, none, one to one", "RSynaptic", alpha=0.4, beta=0.6, all_to_all=False, V=0.25,
               threshold=3.0, **none)  # fmt: skip


def refused_models() -> Iterator[Model]:
    """What has no form, each with the importer's own words."""

    def row(name: str, make: Callable[[], Any], **options: Any) -> Model:
        return Model("snnTorch", name, make, step_by_step, is_exact=False, is_refused=True, **options)

    def behind(neuron: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: nn.Sequential(nn.Linear(12, 8), neuron())

    yield row("Alpha", behind(lambda: snn.Alpha(alpha=0.9, beta=0.8, init_hidden=True)))
    yield row("SLSTM", behind(lambda: snn.SLSTM(8, 8, init_hidden=True)))
    yield row("LeakyParallel", lambda: snn.LeakyParallel(12, 8))
    yield row("Leaky, inhibition=True", behind(lambda: snn.Leaky(beta=0.9, inhibition=True, init_hidden=True)))
    yield row("MaxPool of currents", lambda: nn.Sequential(
        nn.Conv1d(1, 4, 3), nn.MaxPool1d(2), snn.Leaky(beta=0.9, init_hidden=True)), shapes=((1, 12),))  # fmt: skip
