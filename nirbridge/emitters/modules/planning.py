"""Networks as plans of modules: names, layers of every projection, neurons of a framework, delays."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.modules.plan import (
    Framework,
    HeldNeuron,
    LayerCall,
    ModulePlan,
    PlannedMember,
    PlannedNeurons,
    PlannedSynapse,
)
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.graph import in_causal_order, population_groups
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.naming import fresh_name
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

DELAYS = "emit --to torch, which holds every delay"


def module_plan(network: Network, framework: Framework) -> ModulePlan:
    """The plan of a network.

    Raises:
        ModelError: everything that the framework's classes do not compute, and a network without an input.
    """
    if not network.inputs or not network.outputs:
        found = f"has no {'output' if network.inputs else 'input'}"
        limit = "a module takes time and batch from an input, and returns outputs"
        raise ModelError.of("network", found, limit, "add one")
    return _Planner(in_causal_order(network), framework).plan()


class _Planner:
    """One plan under construction."""

    def __init__(self, network: Network, framework: Framework) -> None:
        self.network, self.framework = network, framework
        ends = (*network.inputs, *network.populations, *network.outputs)
        self.ids = identifiers(x.name for x in ends)
        self.taken = set(self.ids.values())
        self.problems: list[Diagnostic] = []
        self.classes: dict[str, str] = {}
        self.order = [p for group in population_groups(network) for p in group.populations]
        self.rank = {p.name: k for k, p in enumerate(self.order)}

    def plan(self) -> ModulePlan:
        held = [self._held(p) for p in self.order]
        for p in self.network.projections:
            self.problems += [] if self.framework.delays else self._limits(p)
        ModelError.raise_all(self.problems)
        synapses = tuple(self._synapse(k, p) for k, p in enumerate(self.network.projections))
        found = zip(self.order, held, strict=True)
        neurons = tuple(self._neurons(p, h) for p, h in found if h is not None)
        return ModulePlan(self.network, self.framework, self.ids, neurons, synapses, self.classes)

    def _held(self, p: Population) -> HeldNeuron | None:
        try:
            return self.framework.held(p, self.network.dt)
        except ModelError as error:
            self.problems += error.problems
            return None

    def _neurons(self, p: Population, held: HeldNeuron) -> PlannedNeurons:
        name, outside = self.ids[p.name], held.outside
        members = []
        for word, values in (("gain", outside.gain), ("offset", outside.offset), ("back", outside.back)):
            if values is not None:
                members.append(PlannedMember(f"{name}_{word}", constant(values), kind="buffer"))
        call = held.call
        if held.own_class:
            number = len(self.classes) + 1
            own_name = self.classes.setdefault(held.own_class, f"Neurons{number if number > 1 else ''}")
            call = replace(call, text=call.text.replace("Neurons", own_name, 1))
        own = PlannedMember(name, call, f"population {p.name!a}: {p.size} neurons")
        return PlannedNeurons(name, p, held, (*members, own))

    # -- projections ---------------------------------------------------------------------------------------------

    def _limits(self, p: Projection) -> list[Diagnostic]:
        """What a module of a framework without delays cannot do."""
        subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
        limit = f"a module of {self.framework.name} reads the spikes of this time step or of the one before"
        is_input = p.source not in self.rank
        source = None if is_input else self.order[self.rank[p.source]]
        found = []
        if p.target_delay_steps.any() or p.min_delay_steps != p.max_delay_steps:
            found.append(Diagnostic(subject, "its synapses have different delays", limit, DELAYS))
        elif p.max_delay_steps > (0 if is_input else 1):
            steps = f"a delay of {counted(p.max_delay_steps, 'time step')}{' after an input' if is_input else ''}"
            found.append(Diagnostic(subject, steps, limit, DELAYS))
        if source is not None and not source.neuron.fires and not self._is_read_out(p):
            text = f"it carries the potential of {quoted(p.source)}, which does not spike"
            limit = f"neurons of {self.framework.name} send spikes; a potential can only be returned"
            found.append(Diagnostic(subject, text, limit, "emit --to torch"))
        return found

    def _is_read_out(self, p: Projection) -> bool:
        """True where an output copies a readout and nothing else."""
        into = [q for q in self.network.projections if q.target == p.target]
        plain = all(isinstance(part, Identity) for part in parts_of(p.operator)) and p.bias is None
        return p.target not in self.rank and len(into) == 1 and plain and not p.max_delay_steps

    def _synapse(self, index: int, p: Projection) -> PlannedSynapse:
        parts = parts_of(p.operator)
        words = p.nodes if len(p.nodes) == len(parts) else (f"{p.source}_{p.target}",) * len(parts)
        comment = f"{p.source!a} -> {p.target!a}"
        layers: list[Layer] = []
        for k, (part, word) in enumerate(zip(parts, words, strict=True)):
            bias = p.bias if k == len(parts) - 1 and not p.target_delay_steps.any() else None
            fresh, is_traced = partial(self._fresh, word), not self.framework.delays
            layers.append(layer_of(part, fresh, bias, comment, is_traced=is_traced))
        base = self._base(layers, words, p)
        members = [layer.member for layer in layers if layer.member]
        bias_id = ""
        if p.bias is not None and not layers[-1].takes_bias:
            bias_id = self._fresh(f"{base}_bias")
            members.append(
                PlannedMember(bias_id, LayerCall(zeros_text(p.bias.shape), {"": p.bias}), comment, "parameter")
            )
        delays = [self._delay(base, word, steps, shape, members) for word, steps, shape in (
            ("delay", p.delay_steps, p.operator.input_shape),
            ("late", p.target_delay_steps, p.operator.output_shape),
        )]  # fmt: skip
        path, ids = tuple(layer.path for layer in layers), tuple(layer.id for layer in layers)
        return PlannedSynapse(f"{base}_{index}", p, tuple(members), path, ids, bias_id, *delays)

    def _base(self, layers: list[Layer], words: tuple[str, ...], p: Projection) -> str:
        known = next((layer.id for layer in reversed(layers) if layer.id), "")
        return (
            known
            or identifiers([words[-1] if words else f"{p.source}_{p.target}"])[
                words[-1] if words else f"{p.source}_{p.target}"
            ]
        )

    def _delay(self, base: str, word: str, steps: Array, shape: Shape, members: list[PlannedMember]) -> int | str:
        """One number, or a buffer that is added to ``members``."""
        if steps.min() == steps.max():
            return int(steps.max())
        name = self._fresh(f"{base}_{word}")
        table = np.broadcast_to(steps, shape)
        call = LayerCall(f"torch.zeros({', '.join(map(str, shape))}, dtype=torch.int64)", {"": table})
        members.append(PlannedMember(name, call, "time steps", "buffer"))
        return name

    def _fresh(self, word: str) -> str:
        name = identifiers([word], self.taken)[word]
        self.taken.add(name)
        return name


def zeros_text(shape: Shape) -> str:
    """A tensor of zeros."""
    return f"torch.zeros({', '.join(map(str, shape))})" if shape else "torch.zeros(())"


def constant(values: Array, dtype: str = "float32") -> LayerCall:
    """A tensor as text and entry: a single number is written out, others are zeros until they are loaded."""
    array = np.asarray(values, dtype)
    text = f"torch.tensor({float(array)!r})" if array.ndim == 0 else zeros_text(array.shape)
    return LayerCall(text, {"": array})


Hold = Callable[[Population], HeldNeuron]


# -- names ---------------------------------------------------------------------------------------------------------
# Names of a network as identifiers of Python: attributes of a module, arguments and variables of its forward.

LOCALS = ("spk_", "cur_", "mem_", "syn_", "state_", "out_", "past_", "late_")
"""What variables of a forward begin with, before the name of a population, projection or port."""
_WORDS = (
    "self step steps batch torch nn snn np F math Neurons Spike Sparse Select Matrix Model nirbridge output forward "
    "ago norse functional neuron layer surrogate _weights reset number each zeros registered Subtract Above starting "
)
_MODULE = (
    "T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches "
    "eval extra_repr float get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules "
    "mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook "
    "register_buffer "
    "register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook "
    "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter "
    "register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule "
    "share_memory state_dict to to_empty train training type xpu zero_grad"
)
RESERVED = frozenset((*_WORDS.split(), *_MODULE.split()))
"""Names with a meaning of their own in an emitted file, and those of every ``torch.nn.Module``."""


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """For each name an identifier in ASCII, the name itself where it is one; no two are equal."""
    used, found = {*RESERVED, *taken}, dict[str, str]()
    wanted = list(dict.fromkeys(names))
    for name in sorted(wanted, key=lambda n: _identifier(n) != n):  # names that can stay, first
        found[name] = fresh_name(_identifier(name), used)
        used.add(found[name])
    return found


def _identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name) or "_"
    is_free = not keyword.iskeyword(word) and not keyword.issoftkeyword(word) and word not in RESERVED
    if is_free and word[0].isalpha() and not word.startswith(LOCALS):
        return word
    return f"n_{word.lstrip('_')}" if word.strip("_") else "n"


# -- layers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A part as text, with its member (None without weights); ``takes_bias``: its bias is among its tensors."""

    path: str
    member: PlannedMember | None = None
    takes_bias: bool = False

    @property
    def id(self) -> str:
        """The member's identifier."""
        return self.member.id if self.member else ""


COLUMNS_MAX, NUMBERS_MAX = 4096, 2**22
"""Of a sparse matrix that importers read from a product (``importers.tracing.ops``)."""


def layer_of(
    part: Operator, name: Callable[[], str], bias: Array | None, comment: str, *, is_traced: bool = False
) -> Layer:
    """A part of an operator.

    Args:
        part: no chain.
        name: gives an identifier.
        bias: a constant after the part that its layer may take over.
        comment: stands beside the layer.
        is_traced: an importer will follow its calls, so that sparse matrices are products that importers read.
    """
    if isinstance(part, Identity):
        return Layer("{}")
    if isinstance(part, Reshape):
        return Layer(_reshaped(part.output_shape))
    if isinstance(part, SumPool):
        return Layer(_pooled(part))
    if isinstance(part, Sparse):
        return _sparse(part, name(), comment, is_traced)
    make: Any = {Dense: _linear, Conv: _convolution, Scale: _scale}[type(part)]
    return make(part, name(), bias, comment)


def _reshaped(shape: Shape) -> str:
    return "{}.flatten(1)" if len(shape) == 1 else f"{{}}.reshape(-1, {_listed(shape)})"


def _listed(values: Shape) -> str:
    return ", ".join(map(str, values))


def _number(values: tuple[int, ...]) -> str:
    """One number where all axes share it."""
    return str(values[0]) if len(set(values)) == 1 else str(values)


def _pooled(part: SumPool) -> str:
    axes = len(part.kernel)
    value, padding = "{}", part.padding
    if any(low != high or 2 * low > size for (low, high), size in zip(padding, part.kernel, strict=True)):
        value, padding = _padded(value, padding), ((0, 0),) * axes  # torch pads at most half of the window
    options = [value, _number(part.kernel), _number(part.stride)]
    size = math.prod(part.kernel)
    if any(low for low, _ in padding):
        options.append(_number(tuple(low for low, _ in padding)))
    if part.factor == 1.0 / size:
        return f"F.avg_pool{axes}d({', '.join(options)})"
    if axes == 1:
        return f"(F.avg_pool1d({', '.join(options)}) * {size * part.factor!r})"
    pooled = f"F.avg_pool2d({', '.join(options)}, divisor_override=1)"
    return pooled if part.factor == 1.0 else f"({pooled} * {part.factor!r})"


def _padded(value: str, padding: tuple[tuple[int, int], ...]) -> str:
    """Zeros around the spatial axes; torch counts from the last axis."""
    return f"F.pad({value}, ({_listed(tuple(n for pair in reversed(padding) for n in pair))}))"


def _linear(part: Dense, name: str, bias: Array | None, comment: str) -> Layer:
    post, pre = part.weight.shape
    tensors = {"weight": part.weight} | ({} if bias is None else {"bias": bias})
    text = f"nn.Linear({pre}, {post}{', bias=False' if bias is None else ''})"
    return Layer(f"self.{name}({{}})", PlannedMember(name, LayerCall(text, tensors), comment), bias is not None)


def _convolution(part: Conv, name: str, bias: Array | None, comment: str) -> Layer:
    axes, value = len(part.kernel), "{}"
    per_channel = None if bias is None else _per_channel(bias)
    arguments = [str(part.input_shape[0]), str(part.weight.shape[0]), _number(part.kernel)]
    lows = tuple(low for low, _ in part.padding)
    if any(low != high for low, high in part.padding):
        value = _padded(value, part.padding)
    elif any(lows):
        arguments.append(f"padding={_number(lows)}")
    for option, values in (("stride", part.stride), ("dilation", part.dilation)):
        arguments += [f"{option}={_number(values)}"] if any(v != 1 for v in values) else []
    arguments += [f"groups={part.groups}"] if part.groups != 1 else []
    arguments += ["bias=False"] if per_channel is None else []
    tensors = {"weight": part.weight} | ({} if per_channel is None else {"bias": per_channel})
    call = LayerCall(f"nn.Conv{axes}d({', '.join(arguments)})", tensors)
    return Layer(f"self.{name}({value})", PlannedMember(name, call, comment), per_channel is not None)


def _per_channel(bias: Array) -> Array | None:
    """One number per channel, where all positions of a channel share it."""
    rows = bias.reshape(bias.shape[0], -1)
    return rows[:, 0] if bool(np.all(rows == rows[:, :1])) else None


def _scale(part: Scale, name: str, bias: Array | None, comment: str) -> Layer:
    tensors = {"": np.ascontiguousarray(part.scale)}
    call = LayerCall(f"torch.ones({_listed(part.scale.shape) or '()'})", tensors)
    return Layer(f"({{}} * self.{name})", PlannedMember(name, call, comment, "parameter"))


def _sparse(part: Sparse, name: str, comment: str, is_traced: bool) -> Layer:
    sizes = math.prod(part.input_shape), math.prod(part.output_shape)
    if is_traced and _is_selection(part):
        call = LayerCall(f"Select({part.output_shape})", {"sources": _table(part)[0][0]})
    elif is_traced and sizes[0] <= COLUMNS_MAX and sizes[0] * sizes[1] <= NUMBERS_MAX:
        call = _product(part)
    else:
        sources, weights = _table(part)
        call = LayerCall(f"Sparse({sources.shape})", {"sources": sources, "weight": weights})
    return Layer(f"self.{name}({{}})", PlannedMember(name, call, comment))


def _is_selection(part: Sparse) -> bool:
    return bool(np.all(part.data == 1)) and int(np.diff(part.indptr).max(initial=0)) <= 1


def _product(part: Sparse) -> LayerCall:
    """One entry after the other."""
    rows = np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))
    tensors = {"sources": np.asarray(part.indices), "targets": rows, "weight": part.data}
    return LayerCall(f"Matrix({part.input_shape}, {part.output_shape}, {len(rows)})", tensors)


def _table(part: Sparse) -> tuple[Array, Array]:
    """Each target's sources, and their weights; short rows end in a source that is always 0."""
    lengths = np.diff(part.indptr)
    width = int(max(1, lengths.max(initial=0)))
    there = np.arange(width)[:, None] < lengths
    sources = np.full(there.shape, math.prod(part.input_shape), np.int64)
    weights = np.zeros(there.shape, part.data.dtype)
    at = (np.asarray(part.indptr[:-1]) + np.arange(width)[:, None])[there]
    sources[there], weights[there] = part.indices[at], part.data[at]
    shape = (width, *part.output_shape)
    return sources.reshape(shape), weights.reshape(shape)
