"""Networks of shapes alone: meaning of a line, refusals, and memory."""

from __future__ import annotations

import tracemalloc

import nir
import pytest

from nirbridge.errors import UsageError
from nirbridge.importers.shapes import ELEMENTS_MAX, LAYERS_MAX, NEURONS, TEXT_MAX, graph_of_shapes
from nirbridge.network.check import diagnose_network
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.shapes import infer_shapes
from nirbridge.network.operators import Chain, Conv, Dense, SumPool

CNN = "2x34x34 conv16k5s2p1 if conv16k3p1 if sumpool2 conv8k3p1 if sumpool2 flatten dense256 if dense10 if"


def network_of(text: str) -> Network:
    return from_nir(graph_of_shapes(text))


def refused(text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        graph_of_shapes(text)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_the_cnn_of_the_nir_paper() -> None:
    network = network_of(CNN)
    assert [(p.name, p.shape) for p in network.populations] == [
        ("2_if", (16, 16, 16)),
        ("4_if", (16, 16, 16)),
        ("7_if", (8, 8, 8)),
        ("11_if", (256,)),
        ("13_if", (10,)),
    ]
    assert network.inputs[0].shape == (2, 34, 34)
    assert network.projections[2].nodes == ("5_sumpool", "6_conv")
    assert network.neurons == 8970


def test_nothing_is_assumed_and_no_value_is_odd() -> None:
    network = network_of("8 dense4 if dense4 lif dense4 cubalif dense4 threshold dense2 li")
    assert network.assumed == ()
    assert network.notes == ()
    assert list(diagnose_network(network)) == []
    assert network.dt == 1e-3


def test_names_are_position_and_kind() -> None:
    graph = graph_of_shapes("3 dense4 lif:rec dense2 li")
    assert list(graph.nodes) == ["0_input", "1_dense", "2_lif", "2_lif_rec", "3_dense", "4_li", "5_output"]
    assert graph.edges == [
        ("0_input", "1_dense"),
        ("1_dense", "2_lif"),
        ("2_lif", "2_lif_rec"),
        ("2_lif_rec", "2_lif"),
        ("2_lif", "3_dense"),
        ("3_dense", "4_li"),
        ("4_li", "5_output"),
    ]


def test_recurrence_is_all_to_all_and_a_step_later() -> None:
    back = [p for p in network_of("700 dense1024 lif:rec dense20 li").projections if p.is_back]
    (loop,) = back
    assert (loop.source, loop.target, loop.max_delay_steps) == ("2_lif", "2_lif", 1)
    assert isinstance(loop.operator, Dense)
    assert loop.operator.weight.shape == (1024, 1024)


@pytest.mark.parametrize("kind", NEURONS)
@pytest.mark.parametrize("shape", ["5", "2x5", "2x3x5"])
def test_every_neuron_on_every_shape(kind: str, shape: str) -> None:
    network = network_of(f"{shape} {kind}")
    assert "x".join(str(n) for n in network.populations[0].shape) == shape
    assert list(diagnose_network(network)) == []
    assert network.populations[0].neuron.fires == (kind != "li")


def test_every_option_of_a_convolution() -> None:
    conv = network_of("4x20x30 conv6k3x5s2x1p1x2d2x1g2 if").projections[0].operator
    assert isinstance(conv, Conv)
    assert conv.weight.shape == (6, 2, 3, 5)
    assert (conv.stride, conv.padding) == ((2, 1), ((1, 1), (2, 2)))
    assert (conv.dilation, conv.groups) == ((2, 1), 2)
    assert conv.output_shape == (6, 9, 30)


def test_options_come_in_any_order() -> None:
    a, b = (network_of(f"4x20x30 {w} if").populations[0].shape for w in ("conv6k3s2p1", "conv6p1k3s2"))
    assert a == b == (6, 10, 15)


def test_one_dimension() -> None:
    conv = network_of("2x100 conv8k5s2p1d2 if").projections[0].operator
    assert isinstance(conv, Conv)
    assert (conv.weight.shape, conv.output_shape) == ((8, 2, 5), (8, 47))


@pytest.mark.parametrize(
    ("word", "shape", "stride", "factor"),
    [
        ("sumpool2", (3, 4, 5), (2, 2), 1.0),
        ("avgpool2x5", (3, 4, 2), (2, 5), 0.1),
        ("sumpool3s2p1", (3, 4, 5), (2, 2), 1.0),
        ("avgpool2s1x2p0x1", (3, 7, 6), (1, 2), 0.25),
    ],
)
def test_pools(word: str, shape: tuple[int, ...], stride: tuple[int, ...], factor: float) -> None:
    pool = network_of(f"3x8x10 {word} lif").projections[0].operator
    assert isinstance(pool, SumPool)
    assert (pool.output_shape, pool.stride, pool.factor) == (shape, stride, factor)


def test_linear_layers_in_a_row_are_one_projection() -> None:
    (first, _) = network_of("2x8x8 sumpool2 conv4k3p1 flatten dense5 if").projections
    assert isinstance(first.operator, Chain)
    assert first.nodes == ("1_sumpool", "2_conv", "3_flatten", "4_dense")


@pytest.mark.parametrize("text", [CNN, "4x20x30 conv6k3x5g2 if", "1x9 conv3k3 li"])
def test_types_are_those_that_the_shapes_give(text: str) -> None:
    graph = graph_of_shapes(text)
    for name, known in infer_shapes(graph).items():
        node = graph.nodes[name]
        assert tuple(node.input_type["input"]) == known.input_shape, name
        assert tuple(node.output_type["output"]) == known.output_shape, name
    graph.check_types()


def test_a_small_graph_can_be_written_as_nir(tmp_path: object) -> None:
    path = f"{tmp_path}/shapes.nir"
    nir.write(path, graph_of_shapes("1x6x6 conv2k3 if flatten dense3 cubalif"))
    assert from_nir(nir.read(path)).neurons == 2 * 4 * 4 + 3


@pytest.mark.parametrize("neuron", NEURONS)
def test_weights_cost_no_memory(neuron: str) -> None:
    tracemalloc.start()
    try:
        network = network_of(f"2000000 dense4096 {neuron} dense4096 {neuron}:rec")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    weight = network.projections[0].operator.weight  # type: ignore[union-attr]
    assert weight.shape == (4096, 2_000_000)
    assert weight.strides == (0, 0)
    assert peak < 4_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2x34x34 conv16 if",
            "layer 1 'conv16': it is not understood, conv<out>k<kernel>[s<stride>][p<padding>][d<dilation>]"
            "[g<groups>], each once, two axes as 3x5 is expected; for example conv16k5s2p1",
        ),
        (
            "2x34x34 conv16s2 if",
            "layer 1 'conv16s2': it has no kernel, conv<out>k<kernel>[s<stride>][p<padding>][d<dilation>][g<groups>], "
            "each once, two axes as 3x5 is expected; for example conv16k5s2p1",
        ),
        (
            "8 dense4k3 if",
            "layer 1 'dense4k3': it is not understood, dense<out> is expected; for example dense128",
        ),
        (
            "8 danse4 if",
            "layer 1 'danse4': no layer has this name, there are conv, dense, sumpool, avgpool, flatten, if, lif, "
            "cubalif, li, threshold; did you mean dense128?",
        ),
        (
            "8 dense4 lif :rec",
            "layer 3 ':rec': no layer has this name, there are conv, dense, sumpool, avgpool, flatten, if, lif, "
            "cubalif, li, threshold; for example 2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif",
        ),
        (
            "8 dense4 lif:rex",
            "layer 2 'lif:rex': it is not understood, lif or lif:rec is expected; for example lif:rec",
        ),
        (
            "2x3x4x5 lif",
            "input shape '2x3x4x5': it is no shape, N, channels x positions or channels x rows x columns is expected; "
            "for example 2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif",
        ),
        (
            "dense8 lif",
            "input shape 'dense8': the line begins with a layer, N, channels x positions or channels x rows x columns "
            "is expected; for example 2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif",
        ),
        ("2x0x4 lif", "input shape '2x0x4': its size is 2x0x4, from 1 to 100,000,000 are taken; for example 2x34x34"),
        ("8 dense0 lif", "layer 1 'dense0': its size is 0, from 1 to 100,000,000 are taken; for example dense128"),
        (
            "2x8x8 conv4k3s0 if",
            "layer 1 'conv4k3s0': its stride is 0, from 1 to 100,000,000 are taken; for example conv16k5s2p1",
        ),
        (
            "2x8x8 conv4k3k3 if",
            "layer 1 'conv4k3k3': it gives k (the kernel) twice, conv<out>k<kernel>[s<stride>][p<padding>][d<dilation>]"
            "[g<groups>], each once, two axes as 3x5 is expected; for example conv16k5s2p1",
        ),
        (
            "2x8x8 conv4k3g1x2 if",
            "layer 1 'conv4k3g1x2': its groups are two numbers, conv<out>k<kernel>[s<stride>][p<padding>][d<dilation>]"
            "[g<groups>], each once, two axes as 3x5 is expected; for example conv16k5s2p1",
        ),
        (
            "2x8x8 dense4 lif",
            "layer 1 'dense4': a shape of 2x8x8 reaches it, dense takes a flat one; "
            "put flatten before it: flatten dense4",
        ),
        (
            "2x8x8 lif:rec",
            "layer 1 'lif:rec': a shape of 2x8x8 reaches it, all-to-all recurrence takes a flat one; "
            "put flatten before it: flatten lif:rec",
        ),
        (
            "128 conv4k3 if",
            "layer 1 'conv4k3': a flat shape of 128 reaches it, a convolution takes channels x positions or channels x "
            "rows x columns; start from one, for example 1x128 conv4k3 or 1x28x28 conv4k3",
        ),
        (
            "2x128 sumpool2 if",
            "layer 1 'sumpool2': a shape of 2x128 reaches it, a pool takes channels x rows x columns; start from one, "
            "for example 1x28x28 conv4k3 if sumpool2",
        ),
        (
            "2x128 conv4k3x3 if",
            "layer 1 'conv4k3x3': its kernel 3x3 has 2 numbers, the shape 2x128 has one spatial axis; give one number, "
            "for example conv16k5s2",
        ),
        (
            "2x4x4 if conv4k5 if",
            "layer 2 'conv4k5': its window 5x5 is larger than the padded shape 2x4x4, at least one window must fit; "
            "use a smaller kernel or more padding: conv4k5p2",
        ),
        (
            "2x8x8 conv4k3g3 if",
            "layer 1 'conv4k3g3': groups 3 on 2 channels in and 4 out, groups divide both; "
            "correct g: conv2k3g2 has one kernel a channel",
        ),
        (
            "8",
            "input shape '8': no layer follows it, the last layer must be neurons; add layers: "
            "2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif",
        ),
        (
            "8 dense4",
            "layer 1 'dense4': nothing follows it, the last layer must be neurons; add neurons: dense4 lif",
        ),
        (
            "  ",
            "shapes: the text is empty, an input shape and layers are expected; "
            "try 2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    assert refused(text) == [message]


def test_every_wrong_word_is_listed() -> None:
    found = refused("2y3 conv16 IF dense٣ lif\x1b[31m")
    assert [line.split(": ")[0] for line in found] == [
        "input shape '2y3'",
        "layer 1 'conv16'",
        "layer 2 'IF'",
        "layer 3 'dense٣'",
        "layer 4 'lif\\x1b[31m'",
    ]


def test_the_message_is_short_however_many_words_are_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        graph_of_shapes("2x34x34 " + "x" * 500 + " cnov8k3" * 990)
    assert str(caught.value.problems[-1]) == "shapes: 971 more wrong words"
    assert len(caught.value.problems) == 21
    assert len(str(caught.value)) < 5_000


def test_the_error_keeps_position_and_word() -> None:
    with pytest.raises(UsageError) as caught:
        graph_of_shapes("8 dense4 lif dense2x")
    assert dict(caught.value.problems[0].ids) == {"layer": 3, "word": "dense2x"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8 " * (TEXT_MAX // 2 + 1), f"shapes: it has {TEXT_MAX + 2:,} characters"),
        ("8" + " lif" * (LAYERS_MAX + 1), f"shapes: it has {LAYERS_MAX + 1:,} layers"),
        (f"8 dense{ELEMENTS_MAX + 1} lif", f"layer 1 'dense{ELEMENTS_MAX + 1}': it has {ELEMENTS_MAX + 1:,} elements"),
        (f"{ELEMENTS_MAX}x1x2 lif", f"input shape '{ELEMENTS_MAX}x1x2': it has {2 * ELEMENTS_MAX:,} elements"),
        ("8 dense" + "9" * 5000 + " lif", "layer 1 'dense" + "9" * 74 + "…': its size is " + "9" * 39 + "…"),
        ("1x9x9 conv9k1p99999 lif", "layer 1 'conv9k1p99999': it has 360,0"),
        ("2x1000000 conv1k1000 lif", "layer 1 'conv1k1000': 999,001 positions by 1,000 kernel elements along one axis"),
    ],
)
def test_sizes_are_limited(text: str, found: str) -> None:
    (line,) = refused(text)
    assert line.startswith(found)


def test_the_largest_layers_that_are_taken() -> None:
    graph = graph_of_shapes(f"{ELEMENTS_MAX} dense{ELEMENTS_MAX} cubalif")
    assert graph.nodes["2_cubalif"].w_in.strides == (0,)
    too_many = refused("2000000x1x1 conv20000000k9p4 lif")
    assert too_many[0].startswith("layer 1 'conv20000000k9p4': it has 3,240,000,000,000,000 weights")
