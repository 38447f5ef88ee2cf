# ruff: noqa: E501  (tables of messages read better in one line)
"""Pipelines of passes as text: round trips with any names, and errors with their position."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nirbridge import pipeline, plugins
from nirbridge.errors import Bug, NirbridgeError, UsageError
from nirbridge.network import same_network
from nirbridge.network.model import Network
from nirbridge.passes import EliminateDead, RelayPools, RelayProjection, ReplicateSource, Retime, UniformDelays
from nirbridge.passes.base import Pass, Promise
from nirbridge.passes.text import check_options, format_passes, parse_passes
from tests.partitioner.nets import network_of


@dataclass(frozen=True, slots=True)
class Odd:
    """Options of every type that has a form in text."""

    pass_name: ClassVar[str] = "odd"
    promise: Promise = field(default="same", init=False, repr=False)
    a: str
    b: int | str | None = None
    c: float | None = 0.5
    d: Literal["x", "none", "a b"] = "x"
    e: tuple[int, ...] | tuple[str, ...] = ()
    f: tuple[float | bool | str, ...] = ("yes", True)
    g: bool | int = False

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, network: Network) -> Network:
        return network


CLASSES: dict[str, Any] = {
    cls.pass_name: cls
    for cls in (EliminateDead, RelayPools, RelayProjection, ReplicateSource, Retime, UniformDelays, Odd)
}


def find(name: str) -> type[Pass]:
    if name not in CLASSES:
        raise UsageError.of(f"pass {name}", "unknown")
    return CLASSES[name]


def parse(text: str) -> tuple[Any, ...]:
    return parse_passes(text, find)


def told(text: str) -> list[str]:
    with pytest.raises(NirbridgeError) as caught:
        parse(text)
    assert isinstance(caught.value, UsageError)
    return [str(p) for p in caught.value.problems]


TEXT = st.one_of(
    st.text(),
    st.sampled_from(
        ["none", "true", "2", "-1", "1e5", "inf", "", " ", "a,b", "a=b", "{}", "[1]", '"', "\\", "é", "\n"]
    ),
)
NUMBERS = st.floats(allow_nan=False)
ODD = st.builds(
    Odd,
    a=TEXT,
    b=st.none() | st.integers() | TEXT,
    c=st.none() | NUMBERS | st.integers(-(2**53), 2**53),
    d=st.sampled_from(["x", "none", "a b"]),
    e=st.lists(st.integers()).map(tuple) | st.lists(TEXT).map(tuple),
    f=st.lists(NUMBERS | st.booleans() | TEXT).map(tuple),
    g=st.booleans() | st.integers(),
)
PASSES = st.one_of(
    st.builds(EliminateDead),
    st.builds(UniformDelays),
    st.builds(ReplicateSource, TEXT, st.integers(2, 9)),
    st.builds(RelayPools, st.none() | st.lists(TEXT).map(tuple), st.booleans()),
    st.builds(RelayProjection, st.integers(), st.integers(), st.booleans()),
    st.builds(Retime, st.none() | st.integers(0, 99), st.booleans(), st.booleans()),
    ODD,
)


@given(st.lists(PASSES, max_size=4))
def test_a_pipeline_comes_back_from_its_text(pipeline: list[Any]) -> None:
    text = format_passes(pipeline)
    assert parse(text) == tuple(pipeline)
    assert text.isprintable()


@given(st.lists(PASSES, max_size=3), st.randoms(use_true_random=False))
def test_space_between_words_is_skipped(pipeline: list[Any], random: Any) -> None:
    text, spaced, quoted = format_passes(pipeline), "", False
    for k, character in enumerate(text):
        spaced += character
        quoted ^= character == '"' and (len(text[:k]) - len(text[:k].rstrip("\\"))) % 2 == 0
        if not quoted and character in ',{}[]="':
            spaced += random.choice(["", " ", "\n "])
    assert parse(spaced) == tuple(pipeline)


@given(st.text(alphabet='ab,{}[]="\\ \n') | st.text())
def test_every_other_text_is_refused_in_the_form_of_errors(text: str) -> None:
    try:
        pipeline = parse(text)
    except UsageError:
        return
    assert parse(format_passes(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        ((), ""),
        ((EliminateDead(), ReplicateSource("fc1", 2)), "eliminate-dead,replicate-source{name=fc1,ways=2}"),
        ((ReplicateSource("2", 3),), "replicate-source{name=2,ways=3}"),
        ((ReplicateSource('a "b', 3),), r'replicate-source{name="a \"b",ways=3}'),
        ((ReplicateSource("é\x1b", 3),), r'replicate-source{name="\u00e9\u001b",ways=3}'),
        ((ReplicateSource("层", 3),), 'replicate-source{name="层",ways=3}'),
        ((RelayPools(("p", "a b"), graded_spikes=True),), 'relay-pools{names=[p,"a b"],graded_spikes=true}'),
        ((RelayPools(()),), "relay-pools{names=[]}"),
        ((Retime(graded_spikes=False), Retime(3)), "retime{graded_spikes=false},retime{delay_steps_max=3}"),
        ((Odd("none", "none", None),), 'odd{a=none,b="none",c=none}'),
        ((Odd("", "2", 1e22, "none", ("1", "x")),), 'odd{a="",b="2",c=1e+22,d=none,e=[1,x]}'),
        ((Odd("a", e=("1",), f=(1.0, True, "1", "x")),), 'odd{a=a,e=["1"],f=[1.0,true,"1","x"]}'),
    ],
)
def test_texts_as_they_are_written(pipeline: tuple[Any, ...], text: str) -> None:
    assert format_passes(pipeline) == text
    assert parse(text) == pipeline


FORM = "as in eliminate-dead,replicate-source{name=fc1,ways=2}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("eliminate-dead,", f"character 16 is the end where a pass is expected, {FORM}"),
        (",retime", f"character 1 is ',' where a pass is expected, {FORM}"),
        ("retime retime", f"character 8 is 'retime' where ',' is expected, {FORM}"),
        ("retime{", f"character 8 is the end where an option is expected, {FORM}"),
        ("retime{graded_spikes}", f"character 21 is '}}' where '=' is expected, {FORM}"),
        ("retime{graded_spikes=}", f"character 22 is '}}' where a value is expected, {FORM}"),
        ('retime{"a"=3}', f"character 8 is '\"a\"' where an option is expected, {FORM}"),
        ("retime{a=[[1]]}", f"character 11 is '[' where a value is expected, {FORM}"),
        ("retime{a=[1 2]}", f"character 13 is '2' where ',' is expected, {FORM}"),
        ("retime{a=1,a=2}", f"character 12 is option 'a' a second time, {FORM}"),
        ('retime{a="b}', f'character 10 is a string that does not end with ", {FORM}'),
        (r'retime{a="\x"}', f"character 10 is a string with an escape that JSON does not have, {FORM}"),
        (
            "retimegraded_spikes=true",
            f"character 20 is '=' where ',' is expected, {FORM}; put the text into single quotes, since a shell "
            "expands braces",
        ),
    ],
)
def test_text_of_another_form(text: str, words: str) -> None:
    from nirbridge.errors import quoted

    assert told(text) == [f"passes {quoted(text)}: {words}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gone", ["pass gone: unknown"]),
        (
            "replicate-source{nam=a,ways=x}",
            [
                "option 'nam' of pass 'replicate-source': unknown, options: name, ways; did you mean 'name'?",
                "option 'ways' of pass 'replicate-source': 'x' is not an integer; correct it",
                "option 'name' of pass 'replicate-source': missing, the pass needs text; "
                "write replicate-source{name=…,ways=…}",
            ],
        ),
        ("eliminate-dead{q=1}", ["option 'q' of pass 'eliminate-dead': unknown, the pass has no options"]),
        ("relay-pools{names=p}", ["option 'names' of pass 'relay-pools': 'p' is not none or a list of text; correct it"]),
        ('retime{graded_spikes="true"}', ["option 'graded_spikes' of pass 'retime': 'true' is not true or false; correct it"]),
        ("replicate-source{name=[a,b],ways=2}", ["option 'name' of pass 'replicate-source': ['a', 'b'] is not text; correct it"]),
        ("odd{a=x,d=y}", ["option 'd' of pass 'odd': 'y' is not one of x, none, a b; correct it"]),
        ("retime{delay_steps_max=-1}", ["option 'delay_steps_max' of pass 'retime': -1, 0 or more time steps; correct it"]),
    ],
)  # fmt: skip
def test_options_that_a_pass_does_not_take(text: str, words: list[str]) -> None:
    assert told(text) == words


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ReplicateSource("a", True), "option 'ways' of pass 'replicate-source': True is not an integer; correct it"),
        (lambda: RelayPools(["a"]), "option 'names' of pass 'relay-pools': ['a'] is not none or a list of text; correct it"),  # type: ignore[arg-type]
        (lambda: RelayPools((1,)), "option 'names' of pass 'relay-pools': (1,) is not none or a list of text; correct it"),  # type: ignore[arg-type]
        (lambda: Odd("a", c=True), "option 'c' of pass 'odd': True is not none or a number; correct it"),
        (lambda: Odd("a", d="y"), "option 'd' of pass 'odd': 'y' is not one of x, none, a b; correct it"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused_when_a_pass_is_made(make: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == words


@dataclass(frozen=True)
class Table:
    pass_name: ClassVar[str] = "table"
    promise: Promise = field(default="same", init=False, repr=False)
    rows: dict[str, int]

    def __call__(self, network: Network) -> Network:
        return network


def test_a_value_without_a_form_in_text() -> None:
    with pytest.raises(UsageError) as caught:
        format_passes([Table({"a": 1})])
    assert str(caught.value) == (
        "option 'rows' of pass 'table': its value '{\\'a\\': 1}' has no form in text; "
        "give the pass itself in place of a text"
    )


@dataclass
class Thawed:
    pass_name: ClassVar[str] = "thawed"

    def __call__(self, network: Network) -> Network:
        return network


@dataclass(frozen=True)
class Mute:
    pass_name: ClassVar[str] = "mute"


@pytest.mark.parametrize("cls", [Thawed, Mute, lambda network: network, 3, Table({})])
def test_classes_that_are_no_passes(cls: Any) -> None:
    with pytest.raises(Bug, match=r"it is not a frozen dataclass with a __call__, a pass is one; please report it"):
        parse_passes("x", lambda name: cls)


def test_a_class_of_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "get", lambda kind, name: CLASSES["retime" if name == "late" else name])
    assert pipeline.parse_passes("retime") == (Retime(),)
    with pytest.raises(
        Bug, match=r"^pass 'late': its class has the pass_name 'retime', the two are equal; please report"
    ):
        pipeline.parse_passes("late")


def test_passes_are_applied_from_text_or_as_values() -> None:
    network = network_of("4 dense3 lif dense10 lif")
    text = "replicate-source{name=2_lif,ways=2}"
    made = [pipeline.apply_passes(network, passes) for passes in (text, ReplicateSource("2_lif", 2), parse(text))]
    assert [n.notes[-1] for n in made] == [f"passes applied on request: {text}"] * 3
    assert all(same_network(n, ReplicateSource("2_lif", 2)(network)) for n in made)
    assert pipeline.apply_passes(network, "") is network
    assert pipeline.apply_passes(network, [Table({"a": 1})]).notes[-1] == "passes applied on request: table"
