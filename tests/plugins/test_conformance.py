"""The conformance suite on every name of nirbridge itself."""

from __future__ import annotations

import pytest

from nirbridge import plugins as registry
from nirbridge.emitters.lava.runtime.environment import find_python
from nirbridge.errors import UsageError
from nirbridge.importers import FRAMEWORKS, JAX_FRAMEWORKS
from nirbridge.passes import PASSES
from nirbridge.simulators.simulate import BACKENDS
from nirbridge.testing import check_conformance, example_inputs, example_models, example_networks
from tests.plugins.framework_modules import MODULES, example

NAMES = [(kind, name) for kind in registry.KINDS for name in registry.names(kind, ())]
NEEDS_NUMBA = ("fast", "event", "dense")


@pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
@pytest.mark.parametrize("name", FRAMEWORKS)  # those of JAX: tests/stack
def test_importers(name: str) -> None:
    check_conformance("importers", name, (), example=example(name))


@pytest.mark.parametrize(("kind", "name"), [pair for pair in NAMES if pair[0] not in ("importers", "emitters")])
def test_names(kind: str, name: str) -> None:
    if kind == "simulators" and name in NEEDS_NUMBA:
        pytest.importorskip("numba", reason="numba is not installed")
    check_conformance(kind, name, ())


@pytest.mark.parametrize("name", registry.names("emitters", ()))
def test_emitters_emit(name: str) -> None:
    check_conformance("emitters", name, (), run=False)


def test_programs_of_lava_run() -> None:
    try:
        find_python()
    except UsageError as error:
        pytest.skip(f"Lava is not installed: {error}")
    check_conformance("emitters", "lava", (), networks=example_networks()[:1])


def test_every_framework_has_an_example() -> None:
    assert [*MODULES, *JAX_FRAMEWORKS] == list(registry.names("importers", ()))


def test_the_tables_of_names_agree() -> None:
    assert dict(registry.BUILTIN.importers) == {**FRAMEWORKS, **JAX_FRAMEWORKS}
    assert dict(registry.BUILTIN.passes) == dict(PASSES)
    assert registry.names("simulators", ()) == ("auto", "best", *BACKENDS, "fixed", "mapped")


@pytest.mark.parametrize("name", BACKENDS)
def test_a_simulator_runs_the_backend_of_its_name(name: str) -> None:
    if name in NEEDS_NUMBA:
        pytest.importorskip("numba", reason="numba is not installed")
    network = example_networks()[0]
    assert registry.get("simulators", name, ())(network, example_inputs(network)).meta["backend"] == name


@pytest.mark.parametrize("name", ["fixed", "mapped"])
def test_a_simulator_of_integers_runs_those_of_its_model(name: str) -> None:
    simulator = registry.get("simulators", name, ())
    (kind,) = simulator.takes
    model = example_models(kind)[0]
    assert simulator(model, example_inputs(model)).meta["backend"] == name


@pytest.mark.parametrize("kind", [kind for kind in registry.KINDS if kind != "chips"])
def test_an_unknown_name_is_said_with_the_nearest_one(kind: str) -> None:
    known = registry.names(kind, ())[-1]
    with pytest.raises(UsageError) as caught:
        registry.get(kind, known + "h", ())
    assert str(caught.value).endswith(f"; did you mean '{known}'?")


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [("partitioners", "cp_sat", "cp-sat"), ("importers", "snntorchh", "snntorch"), ("emitters", "laval", "lava")],
)
def test_slips_of_the_command_line(kind: str, wrong: str, right: str) -> None:
    assert registry.unknown(kind, wrong, ()).problems[0].hint == f"did you mean '{right}'?"
