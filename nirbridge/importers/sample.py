"""Candidate assignments of a sample's axes to batch, time and values, the likeliest first.

A reading is only a proposal. The tracer runs forward on it and accepts it if every slice that moves with a loop is one
of the time axis, every layer leaves batch and time alone, and no axis merely copies the network (see ``copies``).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from nirbridge._types import Shape
from nirbridge.errors import UsageError, quoted, type_text
from nirbridge.network.axes import SAMPLE, TIME, VALUES, Axes, parse_axes

Roles = tuple[str, ...]
"""A role for each axis of a tensor: ``batch``, ``time``, ``value``, or a word for both of the first (``merged``)."""
TimeAxis = int | Literal["none"] | None

STEPS, MORE_STEPS = 12, 300
"""Time steps of a sequence that forward is given; the second where it requires more than the first. Twelve, so that an
operation in every tenth time step, or in the first ones only, shows."""
FEW_STEPS = 3
"""Time steps where twelve take too much memory: the first, the last, and one that is neither."""
BATCH = 2
"""Samples that forward is given: two, so that a batch is not mistaken for a channel."""
WAY_OUT = "say which axes of the sample are batch and time: batched=…, time_axis=… (--batched, --time-axis)"
_BATCH, _TIME = "batch", "time"


def lead_of(roles: Roles) -> Roles:
    """Batch and time, in order."""
    return tuple(role for role in roles if role != "value")


def order_of(roles: Roles) -> tuple[int, ...]:
    """For each axis its place among batch, time and then the values; empty where they stand in that order."""
    leading, values = iter(range(len(roles))), iter(range(len(lead_of(roles)), len(roles)))
    order = tuple(next(values) if role == "value" else next(leading) for role in roles)
    return () if order == tuple(range(len(roles))) else order


@dataclass(frozen=True, slots=True)
class SampleReading:
    """One way to read a sample.

    ``own``: (axis of the sample, role); the others hold values. ``added``: (position, role) of axes that forward is
    given besides. ``steps``, ``batch``: the sizes of these axes (None: those of the sample).
    ``takes_steps``: the time axis of the sample is not given to forward, which computes one time step.
    """

    own: tuple[tuple[int, str], ...] = ()
    added: tuple[tuple[int, str], ...] = ()
    steps: int | None = STEPS
    batch: int | None = BATCH
    takes_steps: bool = False

    def roles(self, rank: int) -> Roles:
        """The role of each axis of a sample."""
        roles = ["value"] * rank
        for axis, role in self.own:
            roles[axis] = role
        return tuple(roles)

    def fed(self, shape: Shape) -> tuple[Shape, Roles]:
        """Shape of the input of forward for a sample of that shape, and the role of each axis."""
        axes = [
            pair
            for pair in zip(shape, self.roles(len(shape)), strict=True)
            if not (self.takes_steps and pair[1] == _TIME)
        ]
        for position, role in self.added:
            axes.insert(position if position >= 0 else len(axes) + position + 1, (1, role))
        return tuple(self._size(n, role) for n, role in axes), tuple(role for _, role in axes)

    def fits(self, shape: Shape) -> bool:
        """True if the sample has all the axes that are given a role."""
        axes = [axis % len(shape) for axis, _ in self.own if -len(shape) <= axis < len(shape)]
        return len(axes) == len(set(axes)) == len(self.own)

    def lead(self, shape: Shape) -> Roles:
        """Batch and time axes of the input of forward, in order."""
        return lead_of(self.fed(shape)[1])

    @property
    def has_time(self) -> bool:
        """True if forward is given whole sequences."""
        return not self.takes_steps and any(role != _BATCH for _, role in (*self.own, *self.added))

    @property
    def time_place(self) -> tuple[str, int] | None:
        """Where time is: an axis of the sample, or a position that is added."""
        axes = [("sample", axis) for axis, role in self.own if role == _TIME]
        added = [("added", position) for position, role in self.added if role == _TIME]
        return (axes + added)[0] if self.has_time and axes + added else None

    def steps_of(self, shape: Shape) -> int:
        """Time steps of a sample of that shape, 0 where it has no time axis that forward is given."""
        kind, axis = self.time_place or ("", 0)
        return shape[axis] if kind == "sample" else 0

    def note(self, name: str, shape: Shape, *, are_axes_given: bool = True) -> str:
        """The note on how the sample was read.

        Where forward is never given a time axis of the sample, an axis beside the values may be batch or time alike:
        each of its parts is one time step of one sample.
        """
        roles = self.roles(len(shape))
        is_either = not are_axes_given and _TIME not in roles
        either = [
            f"{_BATCH} or {_TIME}" if role == _BATCH and is_either and n > 1 else role
            for n, role in zip(shape, roles, strict=True)
        ]
        words = ", ".join(str(n) if role == "value" else role for n, role in zip(shape, either, strict=True))
        step = tuple(n for n, role in zip(shape, roles, strict=True) if role == "value")
        return f"input {quoted(name)}: the sample of shape {shape} was read as [{words}], one time step as {step}"

    def data_axes(self, shape: Shape, constant_steps: int = 0) -> Axes:
        """The axes of the data that the module takes, as ``network.axes``; empty where the reading does not say.

        ``constant_steps``: of a forward that computes this many time steps of one and the same input.
        """
        roles = self.roles(len(shape)) if self.takes_steps else self.fed(shape)[1]
        if set(roles) <= {_BATCH, "value"}:
            return (SAMPLE, f"{TIME}={constant_steps}") if _BATCH in roles and constant_steps > 1 else ()
        words = {_BATCH: SAMPLE, _TIME: TIME, "value": VALUES}
        named = tuple(words.get(role, "") for role in dict.fromkeys(roles))
        return parse_axes(named) if {SAMPLE, TIME} <= set(named) and "" not in named else ()

    def variants(self, shapes: Sequence[Shape]) -> list[SampleReading]:
        """The reading with the sizes to try, one after the other for as long as forward fails on them."""
        steps: tuple[int | None, ...] = (STEPS,)
        if self.has_time:
            time_sizes = [shapes[0][axis] for axis, role in self.own if role == _TIME]
            steps = (STEPS, *((None,) if max(time_sizes) > 1 else ())) if time_sizes else (STEPS, MORE_STEPS)
        distinct: dict[tuple[Any, ...], SampleReading] = {}
        for variant in (replace(self, steps=n, batch=b) for n in steps for b in (BATCH, None)):
            distinct.setdefault(tuple(variant.fed(shape) for shape in shapes), variant)
        return list(distinct.values())

    def shortened(self) -> SampleReading:
        """The reading with few time steps, where ``STEPS`` take too much memory: a batch of one may look like none."""
        return replace(self, steps=FEW_STEPS) if self.has_time and self.steps == STEPS else self

    def of_length(self, steps: int) -> SampleReading:
        """The reading with the time steps of the sample, or with ``steps`` if the sample has no time axis."""
        return replace(self, steps=None if any(role != _BATCH for _, role in self.own) else steps)

    def _size(self, n: int, role: str) -> int:
        both = self.steps * self.batch if self.steps and self.batch else None
        return {_TIME: self.steps, _BATCH: self.batch, "value": None}.get(role, both) or n


def check_axes(batched: Any, time_axis: Any, shapes: Sequence[Shape]) -> None:
    """Nothing, where the two arguments make sense for samples of these shapes.

    Raises:
        UsageError: they do not.
    """
    if batched not in (None, True, False):
        raise UsageError.of("batched", type_text(batched), "True, False or None", "")
    if time_axis is None or time_axis == "none":
        return
    limit = "the axis of the sample that is time, from 0, or 'none' where the sample is one time step"
    if isinstance(time_axis, bool) or not isinstance(time_axis, int):
        raise UsageError.of("time_axis", quoted(time_axis), limit, "for example time_axis=1 for [batch, time, ...]")
    for shape in shapes:
        if not -len(shape) <= time_axis < len(shape):
            raise UsageError.of("time_axis", str(time_axis), f"the sample has shape {shape}", "count its axes from 0")


def sample_readings(shapes: Sequence[Shape], batched: bool | None, time_axis: TimeAxis) -> list[SampleReading]:
    """The ways to read samples of these shapes, the likeliest first."""
    rank = len(shapes[0])
    has_no_time = time_axis in (None, "none")
    steps = [SampleReading(own=((0, _BATCH),)), SampleReading(added=((0, _BATCH),))] if has_no_time else []
    sequences = list(_whole_sequences(rank, time_axis)) if time_axis != "none" else []
    longer = list(_with_time_added()) if has_no_time else []
    first, rest = steps[:1] if rank in (2, 4) else [], steps[1:] if rank in (2, 4) else steps[::-1]
    if rank == 1:
        ordered = [*rest, *longer, *sequences]
    elif rank == 2:
        ordered = [*first, *longer, *rest, *sequences]
    else:
        ordered = [*first, *sequences, *rest, *longer]
    ordered += list(_steps_of(rank, time_axis)) if isinstance(time_axis, int) else [SampleReading()]
    fitting = (r for r in dict.fromkeys(ordered) if all(r.fits(shape) for shape in shapes))
    return [r for r in fitting if batched is None or any(role != _TIME for _, role in r.own) == batched]


def _with_time_added() -> Iterator[SampleReading]:
    """The sample is one time step, and forward takes sequences: time first, after the batch, last."""
    for position in (0, 1, -1):
        yield SampleReading(own=((0, _BATCH),), added=((position, _TIME),))
        yield SampleReading(added=((0, _BATCH), (position, _TIME)))
    for position in (0, -1):
        yield SampleReading(added=((position, _TIME),))


def _whole_sequences(rank: int, time_axis: TimeAxis) -> Iterator[SampleReading]:
    """The sample is a sequence: with a batch axis, without one where forward needs it, without one at all."""
    places = (time_axis % rank,) if isinstance(time_axis, int) else range(rank if rank > 1 else 0)
    several = [place for place in (1, 0, *range(2, rank)) if place in places] if rank > 1 else []
    for place in several:
        yield SampleReading(own=((place, _TIME), (1 if place == 0 else 0, _BATCH)))
    for place in places:
        yield SampleReading(own=((place, _TIME),), added=((1 if place == 0 else 0, _BATCH),))
    if 0 in places:
        yield SampleReading(own=((0, _TIME),), added=((0, _BATCH),))
    for place in places:
        yield SampleReading(own=((place, _TIME),))
    if isinstance(time_axis, int):
        return
    if rank > 1:
        yield SampleReading(own=((0, "merged"),))
        yield SampleReading(own=((0, "merged-batch-first"),))


def _steps_of(rank: int, time_axis: int) -> Iterator[SampleReading]:
    """The sample is a sequence, and forward takes one time step of it."""
    time = (time_axis % rank, _TIME)
    if rank > 1:
        yield SampleReading(own=(time, (1 if time[0] == 0 else 0, _BATCH)), takes_steps=True)
    yield SampleReading(own=(time,), added=((0, _BATCH),), takes_steps=True)
    yield SampleReading(own=(time,), takes_steps=True)


def named_samples(module: Any, sample: Any) -> dict[str, Any]:
    """Argument name -> tensor.

    Raises:
        UsageError: the sample is no tensor, array or tuple of them.
    """
    import torch

    values = tuple(sample) if isinstance(sample, tuple | list) else (sample,)
    if isinstance(sample, tuple) and sample and all(isinstance(n, int) for n in sample):
        raise UsageError.of(
            "sample", str(sample), "a tensor or an array, not its shape", "give torch.zeros of that shape"
        )
    try:
        tensors = [torch.as_tensor(s).detach().clone().float() for s in values]
    except (TypeError, ValueError, RuntimeError) as error:
        found = f"not a tensor or an array ({type(error).__name__})"
        raise UsageError.of("sample", found, "a tensor or an array, or a tuple of them", "") from None
    if not tensors:
        raise UsageError.of("sample", "an empty tuple", "a tensor or an array, or a tuple of them", "give one")
    return dict(zip(_argument_names(module, len(tensors)), tensors, strict=True))


def _argument_names(module: Any, count: int) -> list[str]:
    if count == 1:
        return ["input"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        names = [p.name for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        names = []
    return names[:count] if len(names) >= count else [f"input_{k}" for k in range(count)]


def roles_of(samples: Mapping[str, Any], reading: SampleReading) -> dict[str, Roles]:
    """The role of each axis of the inputs of forward, by the name of its argument."""
    return {name: reading.fed(tuple(tensor.shape))[1] for name, tensor in samples.items()}


def fed_tensors(samples: Mapping[str, Any], reading: SampleReading, seed: int) -> dict[str, Any]:
    """The tensors of one run: random spikes, different in the second run, to detect dependence on them."""
    import torch

    source = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(0, 2, reading.fed(tuple(tensor.shape))[0], generator=source, dtype=tensor.dtype)
        for name, tensor in samples.items()
    }
