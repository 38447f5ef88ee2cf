"""Operations of neurons: one time step of a population, in real numbers and in a chip's integers. Needs xDSL.

Operands are the currents, added in their order; results are what the population sends and its variables after the time
step. The state is implicit: the lowering makes it arguments and results. The rules are those of
``network/neurons.py`` and ``quantization/model.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import attr_def, irdl_op_definition, opt_attr_def, result_def, var_operand_def

from nirbridge._types import Shape
from nirbridge.dialect.base import SpikeOp, has_values, shape
from nirbridge.dialect.placement import placement_faults
from nirbridge.dialect.values import size_of
from nirbridge.errors import Diagnostic, quoted

REAL_RESULTS = ("s", "u", "v", "i")
FIXED_RESULTS = ("s", "u", "v")


class NeuronBase(SpikeOp):
    """What neurons of both kinds of numbers share."""

    args = var_operand_def()
    named = attr_def(attr_name="name")
    index = attr_def()
    max_spikes = attr_def()
    refractory_steps = attr_def()
    placement = opt_attr_def()
    order = opt_attr_def()
    fused = opt_attr_def()

    COEFFICIENTS: ClassVar[tuple[str, ...]] = ()
    VARIABLES: ClassVar[tuple[str, ...]] = ()
    RESETS: ClassVar[tuple[str, ...]] = ()
    THRESHOLD: ClassVar[str] = ""

    @property
    def fires(self) -> bool:
        """False for a readout."""
        return self.attribute(self.THRESHOLD) is not None

    @property
    def shape(self) -> Shape:
        """The population's shape."""
        return shape(self.results[0])

    @property
    def given(self) -> dict[str, Any]:
        """The results by name."""
        return dict(zip(self.VARIABLES, self.results, strict=True))

    def diagnose(self) -> Iterator[Diagnostic]:
        """Faults of types, coefficients and rules."""
        for value in (*self.operands, *self.results):
            if value.type != self.results[0].type:
                yield self.fault(
                    f"a value of type {value.type}", f"its neurons send {self.results[0].type}", "reshape it"
                )
        yield from has_values(self, (*self.COEFFICIENTS, "refractory_steps"), [(), self.shape])
        if self.placement is not None:
            for found, limit in placement_faults(self.placement, self.shape):
                yield self.fault(found, limit, "give the placement of a map")
        yield from has_values(self, ["order"], [(size_of(self.shape),)])
        yield from self._rules()

    def _rules(self) -> Iterator[Diagnostic]:
        reset = self.attribute("reset").data
        if reset not in self.RESETS:
            yield self.fault(f"reset {quoted(reset)}", f"one of {', '.join(self.RESETS)}", "correct it")
        if self.attribute("max_spikes").value.data < 1:
            yield self.fault(f"max_spikes is {self.attribute('max_spikes').value.data}", "at least 1", "correct it")
        if self.attribute("v_min") is not None and not self.fires:
            yield self.fault("a readout with a floor", "only neurons that fire have one", "remove v_min")


@irdl_op_definition
class NeuronOp(NeuronBase):
    """The canonical neuron (``network/neurons.py``) in real numbers; without ``theta`` a readout."""

    name = "spike.neuron"
    s = result_def(TensorType)
    u = result_def(TensorType)
    v = result_def(TensorType)
    i = result_def(TensorType)
    kind = attr_def()
    a_mem = attr_def()
    g_mem = attr_def()
    bias = attr_def()
    theta = opt_attr_def()
    a_syn = attr_def()
    g_syn = attr_def()
    v_reset = attr_def()
    reset = attr_def()
    reset_amount = attr_def()
    compare = attr_def()
    v_init = attr_def()
    i_init = attr_def()
    v_min = opt_attr_def()

    COEFFICIENTS: ClassVar[tuple[str, ...]] = (
        "a_mem", "g_mem", "bias", "theta", "a_syn", "g_syn", "v_reset", "reset_amount", "v_init", "i_init", "v_min",
    )  # fmt: skip
    VARIABLES: ClassVar[tuple[str, ...]] = REAL_RESULTS
    RESETS: ClassVar[tuple[str, ...]] = ("to-value", "subtract", "none")
    THRESHOLD: ClassVar[str] = "theta"

    def _rules(self) -> Iterator[Diagnostic]:
        yield from super()._rules()
        compare = self.attribute("compare").data
        if compare not in (">", ">="):
            yield self.fault(f"compare {quoted(compare)}", "'>' or '>='", "correct it")


@irdl_op_definition
class FixedNeuronOp(NeuronBase):
    """A chip's neuron (``quantization/model.py``) in integers; without ``fires_above`` a readout."""

    name = "spike.fixed_neuron"
    s = result_def(TensorType)
    u = result_def(TensorType)
    v = result_def(TensorType)
    du = attr_def()
    dv = attr_def()
    bias = attr_def()
    fires_above = opt_attr_def()
    reset = attr_def()
    reset_amount = attr_def()
    spike_size = attr_def()
    v_init = attr_def()
    u_init = attr_def()
    v_min = opt_attr_def()
    u_bits = attr_def()
    v_bits = attr_def()

    COEFFICIENTS: ClassVar[tuple[str, ...]] = (
        "du",
        "dv",
        "bias",
        "fires_above",
        "reset_amount",
        "spike_size",
        "v_init",
        "u_init",
        "v_min",
    )
    VARIABLES: ClassVar[tuple[str, ...]] = FIXED_RESULTS
    RESETS: ClassVar[tuple[str, ...]] = ("zero", "subtract", "none")
    THRESHOLD: ClassVar[str] = "fires_above"


NEURONS = (NeuronOp, FixedNeuronOp)
"""Operations of neurons."""
