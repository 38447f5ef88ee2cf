"""Complete emitted programs as text: processes, connections, arrays, and the operations of the host.

That these programs compute the right thing is shown by running them in Lava; here nothing of them moves unseen.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge.arrays import freeze
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.lava.emit import emit
from nirbridge.emitters.lava.plan.fixed import synapses_between
from nirbridge.emitters.program import ProcessPart
from nirbridge.errors import ModelError
from nirbridge.network import from_nir
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Conv, Dense, Identity
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize
from tests.emitters import hand_made as made
from tests.network.graphs import graph_of, lif, out, port

SHOWN = ("network.py", "processes/neurons.py", "processes/recorder.py", "program.json", "README.md")
WHOLE = Path(__file__).parent / "whole"


def integers() -> QuantizedNetwork:
    """Every kind of process: convolutions, dense and sparse ones, delays, spikes of several sizes, a read-out."""
    rng = np.random.default_rng(5)
    image = Conv(made.ints(2 * np.arange(12).reshape(2, 1, 2, 3)), (1, 2), ((1, 1), (0, 0)), (1, 1), 1, (1, 2, 5))
    line = Conv(made.ints(2 * np.arange(4).reshape(2, 1, 2)), (1,), ((0, 0),), (2,), 1, (1, 4))
    several = made.neuron(max_spikes=3, spike_size=900, reset="subtract", reset_amount=[500, 600, 700], fires_above=900)
    silent = made.neuron(fires_above=None, reset="none", v_init=[5, 6])
    populations = [
        made.population("image", image.output_shape, made.neuron(bias_mant=3, bias_exp=2)),
        made.population("line", line.output_shape, made.neuron(u_init=7)),
        made.population("several", (3,), several),
        replace(made.population("silent", (2,), silent), process="custom"),
        made.population("image 2", (3, 3), made.neuron(refractory_steps=2, dv=np.arange(9).reshape(3, 3))),
    ]
    edges = [
        made.projection("in", "image", image),
        made.projection("line in", "line", line),
        made.projection("image", "several", made.sparse(rng, image.output_shape, (3,)), delay_steps=3),
        made.projection("line", "several", made.sparse(rng, (2, 2), (3,)), delay_steps=[[1, 2], [3, 4]]),
        made.projection("several", "silent", made.dense(rng, 2, 3), weight_exp=1, sign_mode="mixed"),
        made.projection("several", "image 2", made.sparse(rng, (3,), (3, 3))),
        made.projection("values", "silent", made.dense(rng, 2, 2), delay_steps=2, target_delay_steps=[0, 1]),
        made.projection("image 2", "image 2", made.sparse(rng, (3, 3), (3, 3)), delay_steps=2),
        made.projection("several", "several", made.dense(rng, 3, 3), delay_steps=4),
    ]
    inputs = [FixedInput("in", (1, 2, 5)), FixedInput("line in", (1, 4)), FixedInput("values", (2,), 15)]
    inputs.append(FixedInput("unused", ()))
    q = made.quantized(inputs, populations, edges, ["silent", "several"])
    late = Projection("several", "sums", Dense(freeze(np.ones((2, 3)))), bias=freeze([0.5, 0.25]))
    late = replace(late, delay_steps=freeze(np.array([0, 1, 2])))
    return replace(q, outputs=(*q.outputs, Port("sums", (2,))), reads=(*q.reads, late), notes=("a note",))


def slices() -> list[Any]:
    """Two pieces of most populations."""
    boxes = {
        "image": [((0, 2), (0, 3), (0, 1)), ((0, 2), (0, 3), (1, 2))],
        "line": [((0, 1), (0, 2)), ((1, 2), (0, 2))],
    }
    boxes |= {"several": [((0, 3),)], "silent": [((0, 1),), ((1, 2),)], "image 2": [((0, 3), (0, 2)), ((0, 3), (2, 3))]}
    return [SimpleNamespace(population=name, box=box) for name, own in boxes.items() for box in own]


def real() -> QuantizedNetwork:
    """Neurons that Lava's LIF computes as they are, and those that need their own; a pool; delays; a read-out."""
    two = np.array([1.0, 2.0])
    pool = nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0]))
    nodes = {
        "in": port(1, 4, 4),
        "pool": pool,
        "plain": lif(1, 2, 2, tau=4e-4, r=4.0),
        "flat": nir.Flatten({"input": np.array([1, 2, 2])}, 0, -1),
        "fc": nir.Affine(np.arange(8.0).reshape(2, 4) / 4, two / 8),
        "cuba": nir.CubaLIF(two * 1e-3, two * 2e-3, two, two * 0, two, w_in=two),
        "wait": nir.Delay(two * 2e-4),
        "own": nir.Linear(np.eye(2) / 2),
        "back": lif(2, theta=0.5),
        "last": nir.Linear(np.ones((3, 2))),
        "li": nir.LI(np.full(3, 1e-3), np.ones(3), np.zeros(3)),
        "out": out(3),
    }
    chain = ["in", "pool", "plain", "flat", "fc", "cuba", "wait", "own", "back", "last", "li", "out"]
    network = from_nir(graph_of(nodes, list(pairwise(chain)), dt=1e-4))
    chip = pipeline.load_chip("loihi2")
    return quantize(pipeline.retime(network, chip), chip, QuantizationOptions())


def shown(program: Artifact) -> str:
    """Sources, tables and arrays of a program, one after the other."""
    parts = [f"== {name}\n{program.files[name].decode()}" for name in SHOWN]
    parts.append(f"== files\n{' '.join(program.files)}\n")
    for name in ("program.npz", "weights.npz"):
        with np.load(io.BytesIO(program.files[name])) as file:
            rows = [f"{key} {file[key].dtype} {json.dumps(np.round(file[key], 12).tolist())}" for key in sorted(file)]
        parts.append("\n".join([f"== {name}", *rows, ""]))
    return "\n".join(parts)


PROGRAMS: dict[str, Callable[[], Artifact]] = {
    "integers.txt": lambda: emit(integers()),
    "per-core.txt": lambda: emit(integers(), mapped=slices()),
    "floating.txt": lambda: emit(real(), floating=True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_whole_program(name: str) -> None:
    assert shown(PROGRAMS[name]()) == (WHOLE / name).read_text(encoding="utf-8")


def test_a_projection_from_a_read_out_or_to_nothing_is_refused() -> None:
    q = integers()
    back = made.projection("silent", "line", made.sparse(np.random.default_rng(0), (2,), (2, 2)))
    empty = made.projection("in", "line", Dense(made.ints(np.zeros((0, 10)))))
    with pytest.raises(ModelError) as caught:
        emit(replace(q, projections=(*q.projections, back, empty)))
    assert str(caught.value).split("\n") == [
        "projection 'silent' to 'line': its source is a readout, values of v are not sent on the chip; end the "
        "network there",
        "population 'line': no neurons; remove it",
    ]


def test_graded_inputs_need_a_chip_that_is_programmable() -> None:
    q = replace(integers(), chip="loihi1", formats={"programmable": False})
    with pytest.raises(ModelError, match="^input 'values': graded values, 'loihi1' takes spikes of 0 and 1; "):
        emit(q)
    assert emit(replace(q, formats={"programmable": True})).digest == emit(replace(integers(), chip="loihi1")).digest


@pytest.mark.parametrize(("length", "fits"), [(30_000, True), (30_001, False)])
def test_names_that_fit_into_an_archive(length: int, fits: bool) -> None:
    q = integers()
    named = replace(q, inputs=(*q.inputs[:-1], replace(q.inputs[-1], name="n" * length)))
    if fits:
        assert emit(named).files
        return
    with pytest.raises(ModelError, match="^node 'n+…': its name is too long for an archive; rename the node$"):
        emit(named)


def test_an_output_reads_values_where_all_its_sources_are_silent() -> None:
    q = integers()
    both = Projection("silent", "sums", Identity((2,)))
    for more, silent in ((q.reads[-1:], False), ((both,), True), ((q.reads[-1], both), False), ((), False)):
        reads = (*q.reads[:-1], *more)
        record = json.loads(emit(replace(q, reads=reads)).files["program.json"])
        assert [port["reads_out"] for port in record["outputs"]] == [True, False, silent]


def test_what_was_assumed_of_the_network_is_said() -> None:
    """Integers from a file do not have the network that they were made of."""
    q = real()
    assert q.network is not None
    assumed = [json.loads(emit(x).files["program.json"])["assumed"] for x in (q, replace(q, network=None))]
    assert assumed == [list(q.network.assumed), []]
    assert len(assumed[0]) == 3


def test_a_whole_source_of_a_piece_keeps_its_delays() -> None:
    p = made.projection("a", "b", Dense(made.ints([[2, 4], [6, 8]])), delay_steps=[1, 2], target_delay_steps=[3, 4])
    pieces = (ProcessPart("top", freeze(np.array([0]))), ProcessPart("low", freeze(np.array([1]))))

    def delays(sources: Any, targets: Any) -> list[Any]:
        cut = [q for q, _, _ in synapses_between(p, sources, targets)]
        return [(q.delay_steps.tolist(), q.target_delay_steps.tolist()) for q in cut]

    assert delays((ProcessPart("x"),), pieces) == [([1, 2], [3]), ([1, 2], [4])]
    assert delays(pieces, (ProcessPart("x"),)) == [([1], [3, 4]), ([2], [3, 4])]
