"""One deliberate violation in an object of each kind: the conformance suite names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import NotConforming, UsageError
from nirbridge.plugins import LoadedPlugin, Plugin
from nirbridge.testing import Example, check_conformance, check_plugin, example_networks

HERE = "tests.plugins.broken"
BROKEN = [
    ("simulators", "OTHER_RESULT", "a run with probes returned a SimulationResult, it returns a Recording"),
    ("simulators", "LOSES_A_SPIKE", "a run with probes: s of "),
    ("simulators", "RECORDS_OUTPUTS_ALONE", "a run with probes recorded s of 'out', it records s of "),
    ("simulators", "CHECKS_NOTHING", "a model of type NoneType raised Bug: simulator 'broken' of this plugin: Attr"),
    ("simulators", "WRITES", "an input was changed, arguments are left unchanged"),
    ("simulators", "DIFFERS", "the recording differs from one call to the next"),
    ("simulators", "SAYS_NOTHING", "meta lacks backend, batch, meta says dt, steps, batch and backend of the run"),
    ("simulators", "TAKES_TEXT", "takes is (<class 'str'>,), takes names types of model"),
    ("partitioners", "runs_another_method", "report.method is 'cp-sat', the registered name, 'broken'"),
    ("partitioners", "loses_a_block", "the checker refuses its partition: "),
    ("partitioners", "returns_blocks", "partitioning returned a tuple, it returns a Partition"),
    ("partitioners", "checks_nothing", "the network None raised Bug: partitioner 'broken' of this plugin: Attri"),
    ("passes", "CanBeChanged", "is no frozen dataclass, the fields of a frozen dataclass are the options of a pass"),
    ("passes", "HasAnotherName", "pass_name is 'louder', the registered name, 'broken'"),
    ("passes", "ReturnsItsNotes", "the pass returned a tuple, it returns a Network"),
    ("passes", "LosesAnOutput", "it changed inputs or outputs, inputs and outputs of the network are kept"),
    ("passes", "RepeatsAPopulation", "it returned a network that is not valid: "),
    ("passes", "HalvesThresholds", "output 'out' is another, the pass promises 'same'"),
    ("passes", "CountsItsCalls", "the network differs from one call to the next"),
    ("passes", "PromisesNothing", "promise is 'nothing', promise is 'same', 'later' or 'changed'"),
    ("passes", "TakesAnything", "the network None raised "),
    ("passes", "FailsInItsExample", "an example raised IndexError: tuple index out of range, it returns a result"),
    ("emitters", "OTHER_KIND", "the manifest says kind 'lava', the registered name, 'broken'"),
    ("emitters", "NO_README", "the program has no README.md"),
    ("emitters", "OTHER_BYTES", "the program differs from one call to the next, the same model gives the same bytes"),
    ("emitters", "OTHER_POTENTIALS", "a run with probes: v of "),
    ("emitters", "CANNOT_RUN", "run, which cannot run a program (records is empty) was accepted"),
    ("emitters", "NO_MANIFEST", "the manifest has other digests than the files"),
    ("emitters", "ANY_OPTIONS", "options of another type was accepted"),
    ("emitters", "FILES", "emit returned a dict, it returns a Artifact"),
    ("emitters", "MAPS_TOO", "emit raised UsageError: model: is of type MappedNetwork, expected QuantizedNetwork"),
    ("importers", "draws_weights", "the graph differs from one call to the next"),
    ("importers", "ignores_dt", "with dt=0.002 the graph has a time step of 0.001 s, dt is the time step"),
    ("importers", "takes_no_dt", "dt raised "),
    ("importers", "reads_anything", "the module None raised Bug: importer 'broken' of this plugin: AttributeError"),
    ("importers", "returns_a_dict", "an import returned a dict, it returns a NIRGraph"),
    ("importers", "writes_into_its_sample", "the sample was changed, arguments are left unchanged"),
]
KINDS = {"passes": "pass", **{k: k[:-1] for k in ("simulators", "partitioners", "emitters", "importers")}}
EXAMPLE = Example(np.array([[0.5, 0.25], [1.0, -0.5], [2.0, 0.0]]), np.zeros(2))


def faults(kind: str, where: str, **options: Any) -> str:
    loaded = (LoadedPlugin("this plugin", Plugin(**{kind: {"broken": where}})),)
    with pytest.raises(NotConforming) as caught:
        check_conformance(kind, "broken", loaded, **options)
    return str(caught.value)


@pytest.mark.parametrize(("kind", "name", "fault"), BROKEN)
def test_what_is_broken_is_said(kind: str, name: str, fault: str) -> None:
    example = EXAMPLE if kind == "importers" else None
    said = faults(kind, f"{HERE}:{name}", example=example, networks=example_networks()[:1])
    assert f"{KINDS[kind]} 'broken': {fault}" in said
    assert all(line.endswith("see docs/plugins.md") for line in said.splitlines())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("simulators", "GOOD_SIMULATOR"),
        ("partitioners", "loses_nothing"),
        ("emitters", "GOOD_EMITTER"),
        ("passes", "Rewrite"),
    ],
)
def test_what_is_not_broken_conforms(kind: str, name: str) -> None:
    loaded = (LoadedPlugin("this plugin", Plugin(**{kind: {"broken": f"{HERE}:{name}"}})),)
    check_conformance(kind, "broken", loaded, networks=example_networks()[:1])


def test_a_chip_of_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "chip 'broken': its file says name 'loihi1', the registered name, 'broken'" in faults(
        "chips", "nirbridge.chips:data/loihi1.toml"
    )


@pytest.mark.parametrize(
    ("kind", "where", "words"),
    [
        ("simulators", "json:loads", "simulator 'x' of p: has no takes, its kind needs them"),
        ("emitters", "json:loads", "emitter 'x' of p: has no takes, options, records, emit, run, its kind needs them"),
        ("partitioners", "json:__name__", "partitioner 'x' of p: has no __call__, its kind needs them"),
    ],
)
def test_an_object_of_another_form(kind: str, where: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_plugin(Plugin(**{kind: {"x": where}}), distribution="p")
    assert str(caught.value) == f"{words}; see docs/plugins.md"


def test_every_fault_of_every_name_is_listed() -> None:
    plugin = Plugin(
        chips={"other": "nirbridge.chips:data/loihi1.toml"}, partitioners={"method": f"{HERE}:runs_another_method"}
    )
    with pytest.raises(NotConforming) as caught:
        check_plugin(plugin)
    assert {p.subject for p in caught.value.problems} == {"chip 'other'", "partitioner 'method'"}


def test_wrong_arguments_of_the_suite() -> None:
    with pytest.raises(UsageError, match="^kind 'chip': unknown, known: chips, importers, passes"):
        check_conformance("chip", "loihi1")
    with pytest.raises(UsageError, match="^importer 'norse': has no example, an importer needs a module"):
        check_conformance("importers", "norse", ())


def test_a_built_in_that_is_broken_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """As this very tree was before: every backend ran the same one, and returned another type."""
    from nirbridge.simulators import by_name
    from nirbridge.simulators.simulate import simulate

    class Old:
        takes = by_name.NUMPY.takes

        def __call__(self, model: Any, inputs: Any, **options: Any) -> Any:
            return simulate(model, inputs, **options)

    monkeypatch.setattr(by_name, "NUMPY", Old())
    with pytest.raises(NotConforming, match="returned a SimulationResult"):
        check_conformance("simulators", "numpy", ())
