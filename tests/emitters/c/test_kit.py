"""The firmware kit of C programs: prefixes, C++, macros, events, counts, and self-tests."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.emitters.artifact import Artifact, make_artifact, read_artifact, write_artifact
from nirbridge.emitters.c.emit import C, emit
from nirbridge.emitters.c.interface import labels
from nirbridge.emitters.c.options import COptions
from nirbridge.errors import FileError, UsageError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron as neuron_of
from nirbridge.network.operators import Dense, Identity
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from tests.emitters.c.programs import BOARD, LINK, M4, STRICT, random_inputs, run, run_on_m4, whole
from tests.emitters.c.test_clang import KINDS, WARNINGS
from tests.emitters.c.test_float32 import odd_operators
from tests.emitters.hand_made import dense, neuron, population, projection, quantized
from tests.emitters.held_out import dyadic_network
from tests.emitters.oracles import TIMING
from tests.tools import needs

CPP = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
LAYOUTS = ("plain", "cmake", "arduino", "platformio")


def small(seed: int = 0, inputs: int = 5, name: str = "in", out: str = "p") -> QuantizedNetwork:
    rng = np.random.default_rng(seed)
    edges = [projection(name, out, dense(rng, 3, inputs)), projection(out, out, dense(rng, 3, 3))]
    return whole(
        quantized([FixedInput(name, (inputs,))], [population(out, (3,), neuron(fires_above=60))], edges, [out])
    )


def folder_of(q: QuantizedNetwork, place: Path, **options: object) -> Path:
    write_artifact(emit(q, COptions(**options)), place)  # pyright: ignore[reportArgumentType]
    return place


# -- prefixes ------------------------------------------------------------------------------------------------------


TAKEN = ("String", "main", "Arduino", "Makefile", "size", "clean", "selftest", "all", "help", "install", "test",
         "two_weights", "two_Selftest")  # fmt: skip
WRONG = ("", "9a", "a__b", "_a", "a_", "a b", "a\n", "é", "a/b", "a" * 33)


@pytest.mark.parametrize(
    ("prefix", "says"),
    [
        *((prefix, "a prefix is a letter") for prefix in WRONG),
        *((word, f"{word.lower()} is the name of another file, or of a target of a build") for word in TAKEN),
    ],
)
def test_prefixes_that_are_refused(prefix: str, says: str) -> None:
    with pytest.raises(UsageError, match=rf"^options of emitter 'c': prefix .*{says}"):
        C.emit(small(), COptions(prefix=prefix))


def test_every_option_that_is_wrong_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        C.emit(small(), COptions(prefix="9", selftest=-1))
    assert [p.found for p in caught.value.problems] == ["prefix '9'", "selftest -1"]
    with pytest.raises(UsageError, match="layout 'bazel', plain or cmake or arduino or platformio"):
        C.emit(small(), COptions(layout="bazel"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match=r"selftest 9000 has .* values of inputs and outputs, at most 8,388,608"):
        C.emit(small(inputs=2000), COptions(selftest=9000))


@pytest.mark.parametrize("prefix", ["a", "int", "Model_2", "nb_x", "s0", "p1_step", "NB"])
def test_every_symbol_and_file_has_the_prefix(prefix: str, tmp_path: Path) -> None:
    place = folder_of(small(), tmp_path / "p", prefix=prefix, selftest=5)
    names = [f"{prefix}.c", f"{prefix}.h", f"{prefix}_weights.h", f"{prefix}_selftest.c"]
    assert {*names} <= {f.name for f in place.iterdir()}
    run(["gcc", *STRICT, "-O0", "-c", f"{prefix}.c", f"{prefix}_selftest.c"], place)
    symbols = run(["nm", f"{prefix}.o", f"{prefix}_selftest.o"], place)
    found = set(re.findall(r"^[0-9a-f]* *[A-Za-z] (\w+)$", symbols, re.MULTILINE))
    assert {name for name in found if not name.startswith(f"{prefix}_")} == set()
    assert {f"{prefix}_step", f"{prefix}_reset", f"{prefix}_selftest", f"{prefix}_s0_add", f"{prefix}_spike"} <= found
    macros = run(["gcc", "-dD", "-E", f"{prefix}.c"], place)
    own = re.findall(rf'# \d+ "{prefix}[^\n]*\n((?:(?!^# ).*\n)*)', macros, re.MULTILINE)
    defined = re.findall(r"^#define (\w+)", "".join(own), re.MULTILINE)
    assert len(defined) > 10
    assert all(name.startswith(f"{prefix.upper()}_") for name in defined)


def test_the_manifest_names_what_is_compiled_and_called(tmp_path: Path) -> None:
    place = folder_of(small(), tmp_path / "p", prefix="net", layout="arduino")
    names = json.loads((place / "manifest.json").read_text())["names"]
    assert names == {
        "header": "src/net.h",
        "sources": ["src/net.c"],
        "model": "net_model",
        "inputs": "net_inputs",
        "outputs": "net_outputs",
        "reset": "net_reset",
        "step": "net_step",
    }


# -- running -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_run_and_its_folder_replaced(layout: str, tmp_path: Path) -> None:
    q = small()
    inputs = random_inputs(q, 20)
    program = C.emit(q, COptions(prefix="net", layout=layout, selftest=4))  # pyright: ignore[reportArgumentType]
    program.save(tmp_path / "p")
    read = read_artifact(tmp_path / "p")
    assert read.digest == program.digest
    found, fixed = C.run(read, inputs).arrays, simulate_fixed(q, inputs).recording.arrays
    assert all(a.any() for a in fixed.values())
    assert all(np.array_equal(found[key], array) for key, array in fixed.items())
    program.save(tmp_path / "p")


def changed(artifact: Artifact, options: Mapping[str, object] | None) -> Artifact:
    """The program with other options in its manifest, and valid digests."""
    manifest = json.loads(artifact.files["manifest.json"])
    files = {path: data for path, data in artifact.files.items() if path != "manifest.json"}
    facts = {key: value for key, value in manifest.items() if key not in ("files", "made_by", "options")}
    return make_artifact(files, facts if options is None else facts | {"options": options})


def test_manifests_that_are_changed_reach_no_compiler() -> None:
    q = small()
    program, inputs = emit(q), random_inputs(q, 3)
    with pytest.raises(UsageError, match="a prefix is a letter"):
        C.run(changed(program, {"prefix": "x; system(1); //"}), inputs)
    with pytest.raises(UsageError, match="layout"):
        C.run(changed(program, {"prefix": "nb", "layout": "../../x"}), inputs)
    with pytest.raises(FileError, match=r"manifest\.json"):
        C.run(changed(program, None), inputs)


# -- several programs in one ---------------------------------------------------------------------------------------

TWO = """#include <stdio.h>
#include "first.h"
#include "second.h"

static first_model one;
static second_model two;
static uint32_t counts[FIRST_OUTPUT_OUT_P_SIZE];

int main()
{
    static const uint8_t given[@STEPS@][FIRST_INPUT_IN_SIZE] = {@FIRST@};
    static const uint8_t others[@STEPS@][SECOND_INPUT_IN_SIZE] = {@SECOND@};

    printf("%d %d\\n", static_cast<int>(first_selftest(&one)), static_cast<int>(second_selftest(&two)));
    first_reset(&one);
    second_reset(&two);
    for (int t = 0; t < @STEPS@; ++t) {
        for (uint32_t i = 0; i < FIRST_INPUT_IN_SIZE; ++i)
            if (given[t][i] != 0)
                first_spike(&one, i);
        first_step(&one, nullptr);
        first_count(&one, counts);
        second_inputs in = {};
        for (uint32_t i = 0; i < SECOND_INPUT_IN_SIZE; ++i)
            in.SECOND_INPUT_IN_FIELD[i] = others[t][i];
        second_step(&two, &in);
        for (uint32_t i = 0; i < FIRST_OUTPUT_OUT_P_SIZE; ++i)
            printf("%d", one.out.FIRST_OUTPUT_OUT_P_FIELD[i]);
        printf(" ");
        for (uint32_t i = 0; i < SECOND_OUTPUT_OUT_P_SIZE; ++i)
            printf("%d", static_cast<int>(two.out.SECOND_OUTPUT_OUT_P_FIELD[i]));
        printf("\\n");
    }
    printf("%d\\n", static_cast<int>(first_argmax(counts)));
    return 0;
}
"""
STEPS = 25


def real() -> Network:
    """A network in real numbers, with the names of ``small``."""
    rng = np.random.default_rng(2)
    cells = Population(
        "p", (3,), neuron_of("LIF", a_mem=0.9, g_mem=0.1, theta=0.31, reset="subtract", reset_amount=0.3)
    )
    edges = [Projection("in", "p", Dense(freeze(rng.normal(0.1, 0.3, (3, 40)))))]
    edges.append(Projection("p", "out p", Identity((3,))))
    return Network(1e-3, TIMING, (cells,), tuple(edges), (Port("in", (40,)),), (Port("out p", (3,)),))


def two_programs(place: Path, second: QuantizedNetwork | Network) -> str:
    """Two programs with names that collide but for the prefix, and a main in C++; returns what it has to print."""
    place.mkdir()
    spikes, text = [], TWO.replace("@STEPS@", str(STEPS))
    for name, model in {"first": small(1), "second": second}.items():
        given = (np.random.default_rng(len(name)).random((STEPS, *model.inputs[0].shape)) < 0.3).astype(np.uint8)
        for path, data in emit(model, COptions(prefix=name, selftest=STEPS)).files.items():
            if path.startswith(name):
                (place / path).write_bytes(data)
        rows = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in given.tolist())
        text = text.replace(f"@{name.upper()}@", rows)
        run_model = simulate if isinstance(model, Network) else simulate_fixed
        probes = [nb.Probe("p", ("s",))]
        spikes.append(run_model(model, {"in": given}, record=probes).recording.arrays["p", "s"].astype(int))  # pyright: ignore[reportArgumentType]
    (place / "main.cpp").write_text(text)
    assert all(s.any() for s in spikes)
    lines = [" ".join("".join(map(str, s[t])) for s in spikes) for t in range(STEPS)]
    return "\n".join(["0 0", *lines, str(int(np.argmax(spikes[0].sum(axis=0))))]) + "\n"


SECOND = {"integers": lambda: small(2, 40), "float32": real}


SOURCES = [f"{name}{end}.c" for name in ("first", "second") for end in ("", "_selftest")]


@pytest.mark.parametrize("second", list(SECOND))
def test_two_programs_and_a_main_in_cpp(second: str, tmp_path: Path) -> None:
    place = tmp_path / "both"
    expected = two_programs(place, SECOND[second]())
    run(["gcc", *STRICT, "-O2", "-c", *SOURCES], place)
    for compiler in ("g++", "clang++"):
        if compiler == "clang++":
            needs("clang")
        objects = [f"{source[:-2]}.o" for source in SOURCES]
        run([compiler, *CPP, "-o", compiler, "main.cpp", *objects], place)
        assert run([place / compiler], place) == expected
    (place / "all.c").write_text("".join(f'#include "{source}"\n' for source in SOURCES))
    run(["gcc", *STRICT, "-O1", "-c", "all.c"], place)  # in one unit of compilation, too


@pytest.mark.parametrize("second", list(SECOND))
def test_two_programs_on_a_cortex_m4(second: str, tmp_path: Path) -> None:
    gcc, place = needs("arm-gcc"), tmp_path / "both"
    expected = two_programs(place, SECOND[second]())
    run([gcc, *M4, *STRICT, "-c", *SOURCES, BOARD / "start.c", "-Wno-pedantic"], place)
    run([gcc.replace("gcc", "g++"), *M4, *CPP, "-fno-exceptions", "-fno-rtti", "-c", "main.cpp"], place)
    objects = [f"{source[:-2]}.o" for source in SOURCES]  # gcc links: Debian has no libstdc++
    run([gcc, *M4, *LINK, "main.o", "start.o", *objects, "-o", "both.elf"], place)
    assert run_on_m4("both.elf", place) == expected


# -- ports of a header ---------------------------------------------------------------------------------------------

HOSTILE = ["int", "m; }", '*/ evil(); /* "?\\', "größe", "Größe", "in\n#error", "x size", "x", "%s??/", "\ud800",
           "日本", "a" * 600]  # fmt: skip


def hostile() -> QuantizedNetwork:
    """An input, a population and an output of each name."""
    rng = np.random.default_rng(0)
    inputs = [FixedInput(f"{name}.", (6,), 9 if k % 2 else 1, 0.25 if k % 2 else 1.0) for k, name in enumerate(HOSTILE)]
    cells = [population(name, (4,), neuron(fires_above=40 if k % 3 else None)) for k, name in enumerate(HOSTILE)]
    edges = [projection(f"{name}.", name, dense(rng, 4, 6)) for name in HOSTILE]
    return whole(quantized(inputs, cells, edges, HOSTILE))


def test_names_of_the_model_are_strings_and_nothing_else(tmp_path: Path) -> None:
    q = hostile()
    place = folder_of(q, tmp_path / "p", prefix="net", selftest=9)
    text = (place / "net.h").read_text("ascii")
    names = re.findall(r"^#define (NET_\w+_NAME) ", text, re.MULTILINE)
    shown = [p.name for p in (*q.inputs, *q.outputs) if len(p.name) < 500]
    assert len(names) == len(shown)
    lines = [f'    puts({name});\n    puts("--");' for name in names]
    main = '#include <stdio.h>\n#include "net.h"\nint main(void)\n{\n' + "\n".join(lines) + "\n    return 0;\n}\n"
    (place / "names.c").write_text(main)
    run(["gcc", *STRICT, "-trigraphs", "-o", "names", "names.c"], place)
    printed = subprocess.run([place / "names"], capture_output=True, check=True).stdout
    assert printed == b"".join(name.encode("utf-8", "surrogatepass") + b"\n--\n" for name in shown)
    run(["make", "selftest"], place)
    inputs = random_inputs(q, 12)
    fixed = simulate_fixed(q, inputs).recording.arrays
    found = C.run(read_artifact(place), inputs).arrays
    assert all(np.array_equal(found[key], array) for key, array in fixed.items())


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["In 1", "out"], ["in_1", "out"]),
        (["", "%%", "x"], ["id0", "id1", "x"]),
        (["X", "x", "y"], ["id0", "id1", "y"]),
        (["id1", "x", "X"], ["id0", "id1", "id2"]),
        (["\N{KELVIN SIGN}", "_a_"], ["k", "a"]),
        (["a" * 60, "b"], ["a" * 40, "b"]),
    ],
)
def test_labels(names: list[str], wanted: list[str]) -> None:
    assert labels(names, [f"id{k}" for k in range(len(names))]) == wanted


# -- events, counts, self-tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KINDS))
def test_self_tests_are_equal_and_free_of_warnings(kind: str, root: Path, tmp_path: Path) -> None:
    """Through events, on all kinds of networks; the sanitizers end a program at anything undefined."""
    place = folder_of(KINDS[kind](root), tmp_path / "p", prefix="net", selftest=24)
    assert json.loads((place / "manifest.json").read_text())["selftest"]["active_outputs"] > 0
    sources = ["net.c", "net_selftest.c", "main.c"]
    run(["gcc", *STRICT, "-O1", "-fanalyzer", "-c", *sources], place)
    sanitizers = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-DNET_SELFTEST_MAIN"]
    run(["gcc", "-std=c99", "-O1", *sanitizers, "-o", "test", *sources[:2]], place)
    run([place / "test"], place)
    (place / "header.cpp").write_text('#include "net.h"\n')
    run(["g++", *CPP, "-c", "header.cpp"], place)
    run([needs("clang"), *WARNINGS, "-O2", "-c", *sources], place)


CALLER = """#include <stdio.h>
#include "net.h"

static net_model m;

int main(void)
{
    printf("%lu\\n", (unsigned long)net_selftest(&m));
    return 0;
}
"""


@pytest.mark.parametrize("make", [real, odd_operators, *(partial(dyadic_network, seed) for seed in range(2, 8))])
def test_self_tests_in_float32(make: Callable[[], Network], tmp_path: Path) -> None:
    place = folder_of(make(), tmp_path / "p", prefix="net", selftest=30)  # pyright: ignore[reportArgumentType]
    active = json.loads((place / "manifest.json").read_text())["selftest"]["active_outputs"]
    assert active > 0 or isinstance(make, partial)
    run(["gcc", *STRICT, "-O2", "-c", "net.c", "net_selftest.c", "main.c"], place)
    (place / "header.cpp").write_text('#include "net.h"\n')
    run(["g++", *CPP, "-c", "header.cpp"], place)
    run(["make", "selftest"], place)


def silent() -> Network:
    """``real`` with a threshold that no potential reaches."""
    network = real()
    (cells,) = network.populations
    return replace(network, populations=(replace(cells, neuron=replace(cells.neuron, theta=freeze(np.array(1e9)))),))


@pytest.mark.parametrize("path", ["net.c", "net_weights.h", "net_selftest.c"])
@pytest.mark.parametrize("make", [small, silent])
def test_a_self_test_finds_a_fault(path: str, make: Callable[[], Network], tmp_path: Path) -> None:
    """In the step, in a weight, in a vector: the number of the first time step that differs, without spikes too."""
    place = folder_of(make(), tmp_path / "p", prefix="net", selftest=20)  # pyright: ignore[reportArgumentType]
    text = (place / path).read_text()
    wrong = {"net.c": ("fired = v > ", "fired = v > 900 + "), "net_weights.h": ("= {\n    ", "= {\n    1")}
    if make is silent:
        wrong["net.c"] = ("u = (0.8999999761", "u = (0.8999998761")
    wrong["net_selftest.c"] = ("net_expected_sum[20] = {\n    ", "net_expected_sum[20] = {\n    1")
    assert wrong[path][0] in text
    (place / path).write_text(text.replace(*wrong[path], 1))
    (place / "caller.c").write_text(CALLER)
    run(["gcc", "-std=c99", "-o", "caller", "caller.c", "net.c", "net_selftest.c"], place)
    assert 0 < int(run([place / "caller"], place)) <= 20
    assert subprocess.run(["make", "-s", "selftest"], cwd=place, capture_output=True, check=False).returncode != 0


EVENTS = """#include <stdio.h>
#include "net.h"

static net_model m;
static net_inputs in;

int main(void)
{
    uint32_t most;

    net_reset(&m);
    in.in1[0] = 1;
    net_step(&m, &in);
    net_step(&m, NULL);
    net_spike_button(&m, 2);
    net_spike_button(&m, 2);
    net_spike_button(&m, 3);
    net_spike_button(&m, 4294967295u);
    net_value_image(&m, 1, 1000);
    net_value_image(&m, 0, -1000);
    net_value_image(&m, 4, 1);
    net_step(&m, NULL);
    for (int t = 0; t < 3; ++t)
        net_step(&m, NULL);
    most = net_argmax_out_silent(m.out.NET_OUTPUT_OUT_SILENT_FIELD);
    for (uint32_t i = 0; i < NET_OUTPUT_OUT_SILENT_SIZE; ++i)
        printf("%ld ", (long)m.out.p0[i]);
    printf("%lu\\n", (unsigned long)most);
    return 0;
}
"""


def test_events_are_arrays_of_one_time_step(tmp_path: Path) -> None:
    """Repeated spikes are one, values are clipped, indices out of range ignored, and events last one time step."""
    rng = np.random.default_rng(3)
    ports = [FixedInput("image", (4,), value_max=9, scale=0.25), FixedInput("button", (3,))]
    edges = [projection("image", "silent", dense(rng, 5, 4)), projection("button", "silent", dense(rng, 5, 3))]
    cells = [population("silent", (5,), neuron(du=4096, dv=0, fires_above=None)), population("other", (2,), neuron())]
    q = whole(quantized(ports, cells, [*edges, projection("button", "other", dense(rng, 2, 3))], ["silent", "other"]))
    place = folder_of(q, tmp_path / "p", prefix="net")
    (place / "events.c").write_text(EVENTS.replace("NULL", "0"))
    run(["gcc", *STRICT, "-o", "events", "events.c", "net.c"], place)
    image, button = np.zeros((6, 4)), np.zeros((6, 3), np.uint8)
    button[0, 0] = button[2, 2] = 1
    image[2, :2] = -2.25, 2.25
    v = simulate_fixed(q, {"image": image, "button": button}, record=[nb.Probe("silent", ("v",))])
    last = v.recording.arrays["silent", "v"][-1]
    assert len({*last}) == 5
    assert run([place / "events"], place).split() == [*map(str, last), str(int(np.argmax(last)))]
