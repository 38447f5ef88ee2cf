"""Run a private copy of the user's module on given tensors, and record spikes and membranes of its neurons."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nirbridge._types import IMPORT_PROGRESS
from nirbridge.arrays import Array
from nirbridge.importers.neuron_specs import NeuronSpec, NeuronSpecs, neuron_spec_of
from nirbridge.importers.tracing.consistency import state_arguments
from nirbridge.importers.tracing.run import one_thread
from nirbridge.importers.tracing.structures import handed_over_arguments, tensors_of

_RESETS = ("reset_mem", "reset_states", "reset_state", "reset")
"""Methods by which the frameworks set the state of a neuron to its initial one (snnTorch, sinabs, rockpool,
spikingjelly)."""
_FRAMEWORKS = frozenset({"snntorch", "norse", "sinabs", "spikingjelly", "rockpool"})
_MEMBRANES = ("mem", "v", "v_mem", "vmem")


@dataclass(slots=True)
class NeuronObservation:
    """Outputs of one neuron module, one entry per call; ``membranes`` are those after each call, None if unknown.

    ``rows``: of a run of one sample, flat indices of the neurons that are recorded (None: all). ``sent`` then holds the
    outputs of all neurons, ``[time steps, neurons]``, in few bytes; ``size`` is their number.
    """

    form: NeuronSpec
    module: Any
    spikes: list[Array] = field(default_factory=list)
    membranes: list[Array | None] = field(default_factory=list)
    rows: Array | None = None
    size: int = 0
    sent: list[Array] = field(default_factory=list)

    @property
    def layout(self) -> tuple[str, ...] | None:
        """The leading axes of its input and output; None: no time axis."""
        return self.form.layout(self.module) if callable(self.form.layout) else self.form.layout

    @property
    def steps(self) -> int:
        """Time steps of all calls."""
        time_axis = self.layout.index("time") if self.layout else None
        return sum(1 if time_axis is None or s.ndim <= time_axis else s.shape[time_axis] for s in self.spikes)

    def record(self, tensors: Sequence[Any]) -> None:
        """The tensors that one call returned."""
        spikes, membrane = tensors[0], _membrane(self, tensors)
        if self.rows is None:
            self.spikes.append(_numpy(spikes))
            self.membranes.append(None if membrane is None else _numpy(membrane))
        elif spikes.numel() % self.size == 0:  # else it is no population of that size, and counts as not run
            self.sent.append(_brief(spikes.reshape(-1, self.size)))
            self.spikes.append(self._sampled(spikes))
            fits = membrane is not None and membrane.numel() % self.size == 0
            self.membranes.append(self._sampled(membrane) if fits else None)

    def _sampled(self, tensor: Any) -> Array:
        steps = tensor.numel() // self.size
        axes = tuple(steps if word == "time" else 1 for word in self.layout or ("batch",))
        values = _numpy(tensor.reshape(steps, self.size)[:, self.rows])
        return values.reshape(*axes, -1) if self.layout else values


@dataclass(frozen=True, slots=True)
class OriginalRun:
    """The values that the module returned in each call, by name, and the probes of its neurons by module path.

    ``is_stopped``: it ended after the first call, in which a neuron went through several time steps.
    """

    returned: Sequence[Sequence[tuple[str, Array]]]
    probes: Mapping[str, NeuronObservation]
    is_stopped: bool = False

    @property
    def iterations(self) -> int:
        """The largest number of time steps that one neuron went through."""
        return max((probe.steps for probe in self.probes.values()), default=0)


def run_original(
    private_copy: Callable[[], Any],
    forms: NeuronSpecs,
    calls: Iterable[Sequence[Array]],
    *,
    wide: bool,
    seed: int,
    stops_at_loops: bool = False,
    rows: Mapping[str, tuple[Array, int]] | None = None,
) -> OriginalRun:
    """Run a copy of the module in eval mode from its initial state, once for each of ``calls``.

    Args:
        private_copy: makes the copy, which may be changed.
        forms: the classes that count as neurons.
        calls: the arguments of each call.
        wide: compute in float64 (parameters, buffers and every tensor that the forward creates), else as it is.
        seed: seed of torch's random numbers during the run.
        stops_at_loops: stop after the first call if a neuron went through several time steps in it.
        rows: by module path, the neurons to record and how many there are; others are not recorded (None: all are).

    Raises:
        Exception: whatever the module raises.
    """
    import torch

    arguments = [tuple(call) for call in calls]
    quiet = warnings.catch_warnings(action="ignore")
    with torch.random.fork_rng(devices=[]), quiet, one_thread(), torch.no_grad():
        torch.default_generator.manual_seed(seed)  # of the CPU, which is what fork_rng restores
        private = _prepared(private_copy(), wide=wide)
        names = state_arguments(private, len(arguments[0]))
        try:
            return _called(private, forms, arguments, names, wide=wide, stops=stops_at_loops, rows=rows)
        except Exception:
            if not names or len(arguments) < 2:
                raise
        private = _prepared(private_copy(), wide=wide)  # its results do not fit its arguments
        return _called(private, forms, arguments, (), wide=wide, stops=stops_at_loops, rows=rows)


def _prepared(private: Any, *, wide: bool) -> Any:
    import torch

    private.eval()
    if wide:
        private.double()
    quantizers = getattr(torch, "ao", None) and torch.ao.quantization.FakeQuantizeBase
    for inner in private.modules():
        if wide and quantizers and isinstance(inner, quantizers):
            inner.float().forward = _in_single(inner.forward)
        _reset(inner)
    return private


def _in_single(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Fake quantization in float32, the result widened: in float64 a weight may round to the next integer."""
    import torch

    def call(values: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return forward(values.float()).double()

    return call


def _reset(module: Any) -> None:
    """The initial state, where the framework's own class has a method for it."""
    for name in _RESETS:
        method = getattr(type(module), name, None)
        if method is not None and getattr(method, "__module__", "").partition(".")[0] in _FRAMEWORKS:
            method(module)
            return


def _called(
    private: Any, forms: NeuronSpecs, calls: Sequence[Any], names: Sequence[str], *, wide: bool, stops: bool,
    rows: Mapping[str, tuple[Array, int]] | None,
) -> OriginalRun:  # fmt: skip
    import torch

    probes = _probed(private, forms, rows)
    returned: list[list[tuple[str, Array]]] = []
    result: Any = ()
    with _widened() if wide else nullcontext():
        for number, arrays in enumerate(calls):
            IMPORT_PROGRESS.get()("running the module to compare", number / len(calls))
            more = handed_over_arguments(result, names) if number else {}
            kind = torch.float64 if wide else torch.float32
            result = private(*(torch.tensor(a, dtype=kind) for a in arrays), **more)
            returned.append([(name, _numpy(tensor)) for name, tensor in tensors_of(result)])
            if stops and not number and any(probe.steps > 1 for probe in probes.values()):
                return OriginalRun(returned, _reached(probes), is_stopped=True)
    return OriginalRun(returned, _reached(probes))


def _reached(probes: Mapping[str, NeuronObservation]) -> dict[str, NeuronObservation]:
    return {path: probe for path, probe in probes.items() if probe.spikes}


def _numpy(tensor: Any) -> Array:
    import torch

    return np.array(tensor.detach().to(torch.float64).numpy())


def _brief(tensor: Any) -> Array:
    """The values in one byte each where these are small whole numbers, else as they are."""
    import torch

    small = tensor.detach().to(torch.uint8)
    return np.array((small if torch.equal(small.to(tensor.dtype), tensor) else tensor.detach()).numpy())


# -- neurons -------------------------------------------------------------------------------------------------------


def _probed(
    private: Any, forms: NeuronSpecs, rows: Mapping[str, tuple[Array, int]] | None
) -> dict[str, NeuronObservation]:
    """Probes of every neuron; of a neuron inside of another one only the outer one is recorded."""
    probes: dict[str, NeuronObservation] = {}
    inside: list[str] = []
    for path, inner in private.named_modules():
        form = neuron_spec_of(inner, forms)
        if form is not None and not form.is_refusal:
            probes[path] = NeuronObservation(form, inner)
            if rows is not None:
                probes[path].rows, probes[path].size = rows.get(path, (np.zeros(0, np.int64), sys.maxsize))
            inner.forward = _recorded(inner.forward, path, probes[path], inside)
    return probes


def _recorded(
    forward: Callable[..., Any], path: str, probe: NeuronObservation, inside: list[str]
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        inside.append(path)
        try:
            result = forward(*args, **kwargs)
        finally:
            inside.pop()
        if not inside:
            probe.record([tensor for _, tensor in tensors_of(result)])
        return result

    return call


def _membrane(probe: NeuronObservation, tensors: Sequence[Any]) -> Any:
    if probe.form.potential is not None and probe.form.potential < len(tensors):
        return tensors[probe.form.potential]
    import torch

    membrane = next((v for v in (getattr(probe.module, n, None) for n in _MEMBRANES) if v is not None), None)
    return membrane if isinstance(membrane, torch.Tensor) else None


# -- float64 -------------------------------------------------------------------------------------------------------


@contextmanager
def _widened() -> Iterator[None]:
    """Every float32 tensor that a torch function takes or gives becomes float64 (surrogates write ``.float()``)."""
    import torch
    from torch.overrides import TorchFunctionMode

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(torch.float64) if value.dtype == torch.float32 else value
        if type(value) in (tuple, list):
            return type(value)(wide(inner) for inner in value)
        return value

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name.endswith("_") or name in ("__setitem__", "__set__", "__get__"):
                return func(*args, **(kwargs or {}))
            widened = {key: wide(value) for key, value in (kwargs or {}).items()}
            return wide(func(*(wide(value) for value in args), **widened))

    with Mode():
        yield
