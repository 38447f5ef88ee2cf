"""Handwritten dataflow graphs as networks: projections, ports, notes and every refusal in full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import Diagnostic, ModelError
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.module_checks import Deviation
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    GraphOutput,
    ImportedNeuron,
    NeuronSpec,
    Operation,
    Recurrence,
    ValueRef,
)
from nirbridge.network import Network
from nirbridge.network.apply import apply
from nirbridge.network.graph import closure
from nirbridge.network.neurons import Neuron
from nirbridge.network.neurons import neuron as record
from nirbridge.network.operators import Dense


def neuron(**more: Any) -> Neuron:
    return record("LIF", a_mem=0.5, **more)


class Cell:
    """A framework's class: spikes and a membrane; ``reading``: what is said of it."""

    def __init__(self, own: Neuron | None = None, **more: Any) -> None:
        self.own, self.more = own or neuron(), more

    def reading(self) -> ImportedNeuron:
        return ImportedNeuron(self.own, **self.more)


FORMS: Any = {Cell: NeuronSpec(lambda module, shape, dt: module.reading(), potential=1)}


def call(
    name: str, kind: str, *inputs: Any, shape: Any = (2,), target: Any = None, path: Any = None, **arguments: Any
) -> Operation:
    refs = tuple(ValueRef(i) if isinstance(i, str) else i for i in inputs)
    return Operation(name, name if path is None else path, kind, target, refs, arguments, shape)


def cell(name: str, *inputs: Any, target: Any = None, shape: Any = (2,), **arguments: Any) -> Operation:
    return call(name, "neuron", *inputs, shape=shape, target=target or Cell(), **arguments)


X = call("x", "input")
FC = call("fc", "linear", "x", weight=np.array([[1.0, 2.0], [3.0, 4.0]]), bias=np.array([0.5, 0.0]))


def made(*calls: Operation, returns: Any = None, accept: Any = (), **more: Any) -> Network:
    """The network of a flow that returns its last call, or ``returns``: output name -> what is returned."""
    named = {"s": calls[-1].name} if returns is None else returns
    outputs = tuple(GraphOutput(n, ValueRef(r) if isinstance(r, str) else r) for n, r in named.items())
    return build_network(DataflowGraph((X, *calls), outputs, **more), FORMS, 1e-3, accept)


def wires(network: Network) -> list[tuple[str, str, int]]:
    return [(p.source, p.target, p.max_delay_steps) for p in network.projections]


def refused(*calls: Operation, **more: Any) -> list[str]:
    with pytest.raises(ModelError) as caught:
        made(*calls, **more)
    return [str(p) for p in caught.value.problems]


def test_a_layer_and_a_neuron() -> None:
    network = made(FC, cell("lif", "fc"))
    assert wires(network) == [("x", "lif", 0), ("lif", "output", 0)]
    first = network.projections[0]
    assert isinstance(first.operator, Dense)
    assert (first.operator.weight.tolist(), first.nodes) == ([[1, 2], [3, 4]], ("fc",))
    assert first.bias is not None
    assert first.bias.tolist() == [0.5, 0.0]
    assert [(p.name, p.shape) for p in (*network.inputs, *network.outputs)] == [("x", (2,)), ("output", (2,))]
    assert (network.dt, network.notes) == (1e-3, ())
    without = made(replace(FC, arguments={**FC.arguments, "bias": np.zeros(2)}), cell("lif", "fc"))
    assert without.projections[0].bias is None


def test_one_bias_for_several_paths() -> None:
    both = call("sum", "add", "fc", "x", signs=(1.0, -2.0))
    network = made(FC, both, cell("lif", "sum"))
    assert wires(network) == [("x", "lif", 0)] * 2 + [("lif", "output", 0)]
    assert [None if p.bias is None else p.bias.tolist() for p in network.projections] == [[0.5, 0.0], None, None]
    doubled = made(FC, replace(FC, name="fc2"), call("sum", "add", "fc", "fc2", "x"), cell("lif", "sum"))
    assert doubled.projections[0].bias is not None
    assert doubled.projections[0].bias.tolist() == [1.0, 0.0]
    assert len(doubled.projections) == 4


def test_spikes_of_the_step_before_are_a_delay() -> None:
    late = call("sum", "add", "x", ValueRef("b", 0, previous=True))
    network = made(late, cell("a", "sum"), cell("b", "a"))
    assert wires(network) == [("x", "a", 0), ("b", "a", 1), ("a", "b", 0), ("b", "output", 0)]
    assert [p.is_back for p in network.projections] == [False, True, False, False]
    own = made(call("sum", "add", "x", ValueRef("x", 0, previous=True)), cell("a", "sum"))
    assert wires(own) == [("x", "a", 0), ("x", "a", 1), ("a", "output", 0)]


def test_factors_biases_and_weights_of_the_neuron_itself() -> None:
    weight = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)
    back = Recurrence(Dense(np.eye(2, dtype=np.float32)), np.array([0.0, 3.0]))
    odd = Cell(neuron(), scale_out=5.0, bias=np.array([1.0, 2.0]), operator=Dense(weight), recurrences=(back,))
    network = made(cell("lif", "x", target=odd), call("double", "scale", "lif", factor=2.0))
    own = [(p.source, p.target, p.max_delay_steps) for p in network.projections]
    assert own == [("x", "lif", 0), ("lif", "lif", 1), ("lif", "output", 0)]
    assert [None if p.bias is None else p.bias.tolist() for p in network.projections] == [[1.0, 2.0], [0.0, 3.0], None]
    assert [p.nodes for p in network.projections[:2]] == [("lif_in",), ("lif_scale", "lif_rec")]
    assert np.all(apply(network.projections[2].operator, np.ones(2)) == 10)
    assert apply(network.projections[0].operator, np.array([1.0, 3.0])).tolist() == [3, 1]


def test_notes_are_those_of_the_flow_once() -> None:
    odd = Cell()
    odd.mem = np.ones(1)  # type: ignore[attr-defined]
    assert made(cell("lif", "x", target=odd), notes=("first", "first")).notes == ("first",)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_calls_that_no_network_has() -> None:
    relu, pool = call("r", "relu", "x"), call("p", "max_pool", "r")
    unknown = call("u", "unknown", "p", function="softmax", reason="", hint="")
    said = call("w", "unknown", "u", path="", function="odd", reason="why", hint="do that")
    assert refused(relu, pool, unknown, said, cell("lif", "w")) == [
        "module 'r': a ReLU is not a spiking neuron; put a neuron there, or convert the trained network with "
        "from_torch",
        "module 'p': a maximum of currents is not linear, a maximum of spikes (0 or 1) is exact; pool spikes, "
        "pool(lif(conv(x))) (--accept replaced-maxpool tries that for lif(pool(conv(x))) and measures it), or use an "
        "average pool",
        "module 'u': softmax: its outputs depend on all others; leave it out: the largest output stays the largest",
        "the module's forward: odd: why; do that",
    ]


def test_problems_of_the_flow_and_of_every_neuron_are_in_one_error() -> None:
    def read(module: Any, shape: Any, dt: float) -> Any:
        raise ModelError(Diagnostic("Cell", "a", "", "b"), Diagnostic("module 'l1'", "c", "", "d"))

    forms: Any = {Cell: NeuronSpec(read)}
    flow = DataflowGraph((X, cell("l1", "x"), cell("l2", "l1")), (), problems=(Diagnostic("x", "y", "", "z"),) * 2)
    with pytest.raises(ModelError) as caught:
        build_network(flow, forms, 1e-3)
    assert [str(p) for p in caught.value.problems] == [
        "x: y; z", "module 'l1' (Cell): a; b", "module 'l1': c; d", "module 'l2' (Cell): a; b",
        "module 'l2' (module 'l1'): c; d",
    ]  # fmt: skip
    with pytest.raises(ModelError) as caught:
        build_network(DataflowGraph((X, cell("l1", "x")), ()), {}, 1e-3)
    text = "module 'l1': its class is not supported; replace it by a neuron of the framework"
    assert [str(p) for p in caught.value.problems] == [text]


def test_deviations_are_refused_or_noted() -> None:
    found = (Deviation("kept-states", "module 'lif'", "it starts anew"),)
    (text,) = refused(cell("lif", "x"), deviations=found)
    assert text.startswith("module 'lif': it starts anew, a network cannot do that; accept=('kept-states',)")
    (note,) = made(cell("lif", "x"), deviations=found, accept=("kept-states",)).notes
    assert note.startswith("module 'lif': it starts anew")
    own = Cell(deviations=(("full-precision", "it rounds"),))
    (text,) = refused(cell("lif", "x", target=own))
    assert text.startswith("module 'lif': it rounds, a network cannot do that")


def test_states_go_nowhere_else() -> None:
    text = "it works on a state of 'lif', not on its spikes; let neurons send spikes only"
    state = ValueRef("lif", 1)
    assert refused(cell("lif", "x"), call("d", "scale", state, factor=2.0), cell("b", "d")) == [f"module 'd': {text}"]
    assert refused(cell("lif", "x"), cell("b", state)) == [f"module 'b': {text}"]


def test_shapes_that_do_not_meet() -> None:
    assert refused(cell("lif", "x", shape=(3,))) == [
        "'lif': values of shape (2,) reach neurons of shape (3,); make the shapes equal"
    ]


def test_zeros_as_a_first_state_of_neurons_that_start_elsewhere() -> None:
    start = Cell(neuron(v_init=np.array([0.0, 0.5])))
    given, own = (made(cell("lif", "x", target=start, starts_at_zero=given)) for given in (True, False))
    assert given.population("lif").neuron.v_init.tolist() == 0.0
    assert own.population("lif").neuron.v_init.tolist() == [0.0, 0.5]


def test_a_relu_of_what_is_never_negative_does_nothing() -> None:
    relu = call("r", "relu", "v")
    for keeps in (
        call("v", "scale", "a", factor=2.0), call("v", "scale", "a", factor=0.0), call("v", "add", "a", "a"),
        call("v", "add", "a", "a", signs=(1.0, 0.0)), call("v", "reshape", "a"), call("v", "relu", "a"),
        call("v", "gather", "a", indices=np.array([1, 0])),
    ):  # fmt: skip
        assert wires(made(cell("a", "x"), keeps, relu, cell("b", "r")))[-1] == ("b", "output", 0)
    text = (
        "module 'r': a ReLU is not a spiking neuron; put a neuron there, or convert the trained network with from_torch"
    )
    for source, other in (
        (Cell(), call("v", "scale", "a", factor=np.array([1.0, -0.3]))),
        (Cell(), call("v", "add", "a", "x")),
        (Cell(), replace(FC, name="v")),
        (Cell(scale_out=-1.0), call("v", "reshape", "a")),
        (Cell(scale_out=np.array([1.0, -0.3])), call("v", "reshape", "a")),
        (Cell(record("LI", a_mem=0.5, theta=None)), call("v", "reshape", "a")),
    ):
        assert refused(cell("a", "x", target=source), other, relu, cell("b", "r")) == [text]


# -- outputs ---------------------------------------------------------------------------------------------------------


def test_ports_of_several_outputs() -> None:
    two = (cell("a", "x"), cell("b", "a"))
    network = made(*two, returns={"first": "a", "second": "b", "again": "a"})
    assert [p.name for p in network.outputs] == ["output_first", "output_second"]
    taken = made(cell("output", "x"), returns={"s": "output"})
    assert [p.name for p in taken.outputs] == ["output_2"]
    same = made(cell("output_first", "x"), cell("b", "output_first"), returns={"first": "b", "first_2": "output_first"})
    assert [p.name for p in same.outputs] == ["output_first_2", "output_first_2_2"]


def said(word: str, name: str = "v", place: str = "lif") -> str:
    text = f"output '{name}' of the module is the {word} of '{place}'"
    return f"{text}: not an output of the network, record v of population '{place}'"


def test_states_that_are_returned_beside_spikes() -> None:
    lif = cell("lif", "x")
    for returns in ({"s": "lif", "v": ValueRef("lif", 1)}, {"v": ValueRef("lif", 1), "s": "lif"}):
        network = made(lif, returns=returns)
        assert ([p.name for p in network.outputs], network.notes) == (["output"], (said("membrane potential"),))
    network = made(lif, cell("b", "lif"), returns={"v": ValueRef("lif", 1), "s": "b"})
    assert (wires(network)[-1], network.notes) == (("b", "output", 0), (said("membrane potential"),))
    network = made(lif, cell("b", "x"), returns={"i": ValueRef("lif", 2), "s": "b"})
    assert network.notes == (said("state", "i"),)


def test_a_membrane_that_is_returned_alone() -> None:
    again = Cell(neuron(reset="none"), recurrences=(Recurrence(Dense(np.eye(2, dtype=np.float32))),))
    for cells in ([cell("lif", "x")], [cell("lif", "x"), cell("b", "lif")], [cell("lif", "x", target=again)]):
        with pytest.raises(ModelError) as caught:
            made(*cells, returns={"v": ValueRef("lif", 1)})
        assert str(caught.value) == (
            "module 'lif': the module returns its membrane potential, not its spikes, a neuron that fires outputs its "
            "spikes; return the spikes, alone or beside the potential; a reset by subtraction, without a current, has "
            "a readout"
        )
    free = Cell(neuron(reset="none"))
    network = made(cell("lif", "x", target=free), returns={"v": ValueRef("lif", 1)})
    assert network.notes == ("population 'lif': a readout, its output is the membrane potential",)
    assert (network.populations[0].neuron.kind, network.populations[0].neuron.fires) == ("LI", False)
    both = made(cell("lif", "x", target=free), cell("b", "x"), returns={"v": ValueRef("lif", 1), "s": "b"})
    assert both.notes == ("population 'lif': a readout, its output is the membrane potential",)
    assert [p.name for p in both.outputs] == ["output_s", "output_v"]


def test_loops_that_do_not_hold_the_goal_are_left() -> None:
    beside = [("start", "a"), ("a", "b"), ("b", "a"), ("c", "goal")]
    assert closure(["start"], beside) == {"start", "a", "b"}
    assert closure(["start"], [*beside, ("b", "c")]) == {"start", "a", "b", "c", "goal"}
