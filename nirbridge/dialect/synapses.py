"""Operations of synapses: linear operators on values, or on streams where all time steps are taken at once. Needs xDSL.

Weights
have the element type that the network stores; the lowering casts them to that of the tensors once, as the reference
does. With ``weight_shift`` k they are the stored integers times 2**k.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.irdl import attr_def, irdl_op_definition, operand_def, opt_attr_def, result_def

from nirbridge._types import Shape
from nirbridge.dialect.base import SpikeOp, SpikeType, ValueType, element, has_values, leading_axes, shape
from nirbridge.dialect.kinds import is_tensor
from nirbridge.dialect.values import integers_in, shape_of, size_of
from nirbridge.errors import Diagnostic
from nirbridge.network.operators import window_shape


class Synapse(SpikeOp):
    """One value in, one out, or one stream in and one out."""

    x = operand_def(SpikeType)
    y = result_def(SpikeType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    @property
    def taken(self) -> Shape:
        """Shape of the input."""
        return shape(self.x)

    @property
    def given(self) -> Shape:
        """Shape of the output."""
        return shape(self.y)

    def expected(self) -> Shape | None:
        """Shape of the output, as the attributes have it; None where they contradict the input."""
        return self.taken

    def diagnose(self) -> Iterator[Diagnostic]:
        """Faults of time, the element, and the shapes."""
        if leading_axes(self.x) != leading_axes(self.y):
            yield self.fault(f"takes {self.x.type} and gives {self.y.type}", "both are values or both streams")
        elif element(self.x) != element(self.y) or (self.y.type.element == i1 and not keeps_spikes(type(self))):  # type: ignore[attr-defined]
            yield self.fault(f"takes {self.x.type} and gives {self.y.type}", "spikes and numbers become numbers")
        else:
            yield from self.diagnose_shapes()

    def diagnose_shapes(self) -> Iterator[Diagnostic]:
        """Faults of the trailing axes."""
        expected = self.expected()
        if expected is None:
            yield self.fault(f"takes {self.taken}, which its attributes do not", "", "reshape the input")
        elif self.given != expected:
            yield self.fault(f"gives {self.given}", f"its attributes give {expected}", "correct the result")


@irdl_op_definition
class IdentityOp(Synapse):
    """y = x; spikes stay spikes."""

    name = "spike.identity"


@irdl_op_definition
class ReshapeOp(Synapse):
    """y = x in another shape, row-major."""

    name = "spike.reshape"

    def expected(self) -> Shape | None:
        """The shape of the result, if it has as many elements."""
        return self.given if size_of(self.given) == size_of(self.taken) else None


@irdl_op_definition
class ScaleOp(Synapse):
    """y = scale * x, elementwise."""

    name = "spike.scale"
    scale = attr_def()

    def diagnose_shapes(self) -> Iterator[Diagnostic]:
        """See ``Synapse``; the scale has the shape of the input."""
        yield from has_values(self, ["scale"], [self.taken])
        yield from super().diagnose_shapes()


@irdl_op_definition
class DenseOp(Synapse):
    """y = weight x, ``weight: [post, pre]``."""

    name = "spike.dense"
    weight = attr_def()
    weight_shift = opt_attr_def()
    events = opt_attr_def()

    def expected(self) -> Shape | None:
        """One value per row of the weight."""
        extents = shape_of(self.weight) if is_tensor(self.weight) else ()
        return extents[:1] if len(extents) == 2 and self.taken == extents[1:] else None


@irdl_op_definition
class SparseOp(Synapse):
    """y = W x with W in compressed rows, on flat (row-major) x and y."""

    name = "spike.sparse"
    indptr = attr_def()
    indices = attr_def()
    data = attr_def()
    weight_shift = opt_attr_def()

    def expected(self) -> Shape | None:
        """The shape of the result, if it has an element per row."""
        lists = (self.indptr, self.indices, self.data)
        if not all(is_tensor(each) and len(shape_of(each)) == 1 for each in lists):
            return None
        is_whole = shape_of(self.indices) == shape_of(self.data)
        return self.given if is_whole and shape_of(self.indptr) == (size_of(self.given) + 1,) else None


class Window(Synapse):
    """An operator whose window slides over the axes after the channels."""

    def window(self) -> tuple[Any, ...] | None:
        """(kernel, stride, padding in pairs, dilation), None where their axes differ."""
        kernel, dilation = self.kernel_and_dilation()
        stride, padding = integers_in(self.attribute("stride")), integers_in(self.attribute("padding"))
        pairs = tuple(zip(padding[::2], padding[1::2], strict=False))
        axes = len(self.taken) - 1
        if axes < 1 or {len(kernel), len(stride), len(pairs), len(dilation)} != {axes} or len(padding) != 2 * axes:
            return None
        sound = min((*kernel, *stride, *dilation)) >= 1 and min(padding) >= 0
        return (kernel, stride, pairs, dilation) if sound else None

    def kernel_and_dilation(self) -> tuple[Shape, Shape]:
        """Both per axis; an operator that states none has no window."""
        return (), ()

    def channels(self) -> int | None:
        """Channels of the result; None where the attributes do not take the input's."""
        return self.taken[0]

    def expected(self) -> Shape | None:
        """Channels and positions of the window."""
        window, channels = self.window(), self.channels() if self.taken else None
        if window is None or channels is None:
            return None
        kernel, stride, padding, dilation = window
        positions = window_shape(self.taken[1:], kernel, stride, padding, dilation)
        return (channels, *positions) if min(positions) >= 1 else None


@irdl_op_definition
class ConvOp(Window):
    """Cross-correlation over one or two axes, ``weight: [cout, cin // groups, *kernel]``, zeros outside."""

    name = "spike.conv"
    weight = attr_def()
    weight_shift = opt_attr_def()
    stride = attr_def()
    padding = attr_def()
    dilation = attr_def()
    groups = attr_def()

    def kernel_and_dilation(self) -> tuple[Shape, Shape]:
        """Those of the weight, and of the attribute."""
        return shape_of(self.weight)[2:] if is_tensor(self.weight) else (), integers_in(self.dilation)

    def channels(self) -> int | None:
        """Kernels, where the groups divide them and the input's channels."""
        extents, groups = shape_of(self.weight), self.attribute("groups").value.data
        if len(extents) < 3 or groups < 1 or extents[0] % groups or extents[1] * groups != self.taken[0]:
            return None
        return extents[0]


@irdl_op_definition
class SumPoolOp(Window):
    """y = factor * (sum over each window), per channel, zeros outside."""

    name = "spike.sum_pool"
    kernel = attr_def()
    stride = attr_def()
    padding = attr_def()
    factor = attr_def()

    def kernel_and_dilation(self) -> tuple[Shape, Shape]:
        """Pools are not dilated."""
        kernel = integers_in(self.kernel)
        return kernel, (1,) * len(kernel)


@irdl_op_definition
class CurrentOp(Synapse):
    """The end of a projection: the current of its target, after its bias, which is not delayed.

    ``index`` is the position of the projection in the network, whose order is that of the sums; ``grid`` the number
    format of a chip's weights; ``provenance`` the names of its nodes.
    """

    name = "spike.current"
    index = attr_def()
    bias = opt_attr_def()
    is_back = opt_attr_def()
    grid = opt_attr_def()
    provenance = opt_attr_def()

    def diagnose_shapes(self) -> Iterator[Diagnostic]:
        """See ``Synapse``; the bias has the shape of the target."""
        yield from has_values(self, ["bias"], [self.taken])
        yield from super().diagnose_shapes()


@irdl_op_definition
class ShiftOp(Synapse):
    """y = x << exponent, an arithmetic shift to the right where it is negative: the weight exponent of a chip."""

    name = "spike.shift"
    exponent = attr_def()


@irdl_op_definition
class RealOp(SpikeOp):
    """Reals of integers: y = x * scale, or y = x / scale + offset where an offset is given (v of a readout)."""

    name = "spike.real"
    x = operand_def(ValueType)
    y = result_def(ValueType)
    scale = attr_def()
    offset = opt_attr_def()
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def diagnose(self) -> Iterator[Diagnostic]:
        """The shapes agree."""
        if shape(self.x) != shape(self.y):
            yield self.fault(f"takes {self.x.type} and gives {self.y.type}", "one shape")
        yield from has_values(self, ["scale", "offset"], [(), shape(self.x)])


def keeps_spikes(kind: type[Any]) -> bool:
    """Whether an operation gives spikes where it takes spikes; all others give numbers."""
    return kind in (IdentityOp, ReshapeOp)


SYNAPSES = (IdentityOp, ReshapeOp, ScaleOp, DenseOp, SparseOp, ConvOp, SumPoolOp, CurrentOp, ShiftOp, RealOp)
"""Operations of synapses."""
PARTS = (IdentityOp, ReshapeOp, ScaleOp, DenseOp, SparseOp, ConvOp, SumPoolOp)
"""Those that are parts of a network's operators."""
