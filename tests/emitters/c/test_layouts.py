"""Folders of C programs for CMake, Arduino's tools and PlatformIO."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.c.plan import c_plan
from nirbridge.network.model import Network
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from tests.emitters.c.programs import STRICT, run, whole
from tests.emitters.c.test_float32 import odd_operators
from tests.emitters.c.test_kit import STEPS, folder_of, small, two_programs
from tests.emitters.hand_made import dense, neuron, population, projection, quantized
from tests.tools import needs

TOP = """cmake_minimum_required(VERSION 3.13)
project(both C CXX)
add_subdirectory(first)
add_subdirectory(second)
add_executable(both main.cpp)
target_link_libraries(both first second)
"""


def test_cmake_builds_a_folder_and_a_project_of_two(tmp_path: Path) -> None:
    cmake, expected = needs("cmake"), two_programs(tmp_path / "both", small(2, 40))
    flags = f"-DCMAKE_C_FLAGS={' '.join(STRICT[1:])}"
    for name, q in {"first": small(1), "second": small(2, 40)}.items():
        folder_of(q, tmp_path / name, prefix=name, layout="cmake", selftest=STEPS)
        run([cmake, "-S", name, "-B", f"{name}/build", flags], tmp_path)
        run([cmake, "--build", f"{name}/build"], tmp_path)
        assert "100% tests passed" in run(["ctest"], tmp_path / name / "build")
        assert run([tmp_path / name / "build" / f"{name}_text"], tmp_path, "\n\n") == "\n\n"
    shutil.copy(tmp_path / "both/main.cpp", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(TOP)
    run([cmake, "-B", "build", flags], tmp_path)
    run([cmake, "--build", "build"], tmp_path)
    assert run([tmp_path / "build/both"], tmp_path) == expected


ARDUINO_H = """#pragma once
#include <stdio.h>
#include <stdint.h>
struct Port {
    void begin(unsigned long) {}
    void print(const char *text) { printf("%s", text); }
    void print(unsigned int value) { printf("%u", value); }
    void print(unsigned long value) { printf("%lu", value); }
    void println(long value) { printf("%ld\\n", value); }
    void println(unsigned int value) { printf("%u\\n", value); }
    void println(unsigned long value) { printf("%lu\\n", value); }
    void println(double value, int digits) { printf("%.*f\\n", digits, value); }
};
inline Port Serial;
static inline void delay(unsigned long) {}
void setup();
void loop();
"""
ARDUINO_MAIN = "#include <Arduino.h>\nint main() { setup(); for (int i = 0; i < 4; ++i) loop(); return 0; }\n"


def two_outputs() -> QuantizedNetwork:
    """Spikes and a readout without input."""
    cells = [population("p", (3,), neuron(bias_mant=[900, 0, 300], fires_above=2000))]
    cells += [population("v", (2,), neuron(du=4096, dv=0, fires_above=None))]
    edge = projection("p", "v", dense(np.random.default_rng(1), 2, 3))
    return whole(quantized([FixedInput("in", (1,))], cells, [edge], ["p", "v"]))


def no_input(model: QuantizedNetwork | Network) -> str:
    """The lines of four time steps: population, element and value."""
    shown = [(n.id, (n.name, "s" if n.population.neuron.fires else "v")) for n in c_plan(model).shown]
    inputs = {p.name: np.zeros((4, *p.shape)) for p in model.inputs}
    run_model = simulate if isinstance(model, Network) else simulate_fixed
    found = run_model(model, inputs, record=[nb.Probe("*", ("s", "v"))]).recording.arrays  # pyright: ignore[reportArgumentType]
    rows = [(t, id, i, found[key][t, i]) for t in range(4) for id, key in shown for i in np.flatnonzero(found[key][t])]
    return "".join(f"{id} {i} {value:.0f}\n" for _, id, i, value in rows)


@pytest.mark.parametrize("make", [two_outputs, odd_operators])
@pytest.mark.parametrize("compiler", ["gcc", "arm-gcc"])
def test_arduino_compiles_its_library_and_sketch(make: Callable[[], Network], compiler: str, tmp_path: Path) -> None:
    """As Arduino's tools do: C as gnu11, the sketch as gnu++17 after Arduino.h, which stands for theirs here."""
    gcc, cpu = ("gcc", []) if compiler == "gcc" else (needs(compiler), ["-mcpu=cortex-m4", "-mthumb"])
    model = make()
    place = folder_of(model, tmp_path / "net", prefix="net", layout="arduino", selftest=8)  # pyright: ignore[reportArgumentType]
    assert not [path for path in place.rglob("*") if path.is_file() and b"main.c" in path.read_bytes()]
    rows = dict(line.split("=", 1) for line in (place / "library.properties").read_text().splitlines())
    assert (rows["name"], rows["includes"], rows["version"].count(".")) == ("net", "net.h", 2)
    (place / "Arduino.h").write_text(ARDUINO_H)
    (place / "main.cpp").write_text(ARDUINO_MAIN)
    sketch = "examples/net_example/net_example.ino"
    (place / "sketch.cpp").write_text(f"#include <Arduino.h>\n{(place / sketch).read_text()}")
    flags = [*cpu, "-Os", "-Wall", "-Wextra", "-Werror", "-I.", "-Isrc", "-c"]
    run([gcc, "-std=gnu11", *flags, "src/net.c", "src/net_selftest.c"], place)
    run([gcc.replace("gcc", "g++"), "-std=gnu++17", *flags, "main.cpp", "sketch.cpp"], place)
    if compiler == "gcc":
        run(["g++", "-o", "all", "main.o", "sketch.o", "net.o", "net_selftest.o"], place)
        assert run([place / "all"], place) == "0\n" + no_input(model)  # the self-test, and time steps without events


def test_platformio_has_a_library_in_a_project(tmp_path: Path) -> None:
    place = folder_of(small(), tmp_path / "p", prefix="net", layout="platformio", selftest=8)
    library = json.loads((place / "lib/net/library.json").read_text())
    assert (library["name"], library["headers"]) == ("net", "net.h")
    assert "[env:native]\nplatform = native\n" in (place / "platformio.ini").read_text()
    run(["gcc", *STRICT, "-Ilib/net/src", "-o", "all", "src/main.c", "lib/net/src/net.c"], place)
    assert run([place / "all"], place, "\n\n") == "\n\n"
