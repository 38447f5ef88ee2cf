"""Folders of a C program: its files for make, CMake, Arduino's tools and PlatformIO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nirbridge._version import __version__
from nirbridge.emitters.c.interface import function_names
from nirbridge.emitters.c.options import COptions
from nirbridge.emitters.c.plan import FLOAT, CPlan
from nirbridge.emitters.c.synapses import differs
from nirbridge.files.regular import template_text

TEMPLATES = Path(__file__).with_name("templates")


def template(name: str, options: COptions) -> str:
    """A file of the folder ``templates`` in the names of a program."""
    return options.renamed(template_text(TEMPLATES / f"{name}.txt").replace("@VERSION@", __version__))


def laid_out(plan: CPlan, options: COptions, network: Mapping[str, str], main: str) -> dict[str, str]:
    """All files by path but README and data; ``network``: those of the network by name, ``main``: that reads text."""
    files = {f"{options.folder}{name}": text for name, text in network.items()}
    if options.layout in ("plain", "cmake"):
        name, test = ("Makefile", "selftest.mk") if options.layout == "plain" else ("CMakeLists.txt", "selftest.cmake")
        rules = template(name, options) + (template(test, options) if options.selftest else "")
        return {**files, "main.c": main, name: rules}
    if options.layout == "arduino":
        place = f"examples/{options.prefix}_example/{options.prefix}_example.ino"
        return {**files, "library.properties": template("library.properties", options), place: _sketch(plan, options)}
    library = {f"lib/{options.prefix}/library.json": template("library.json", options)}
    return {**files, **library, "platformio.ini": template("platformio.ini", options), "src/main.c": main}


_TEXT_PROGRAM = "reads spikes as text (`main.c`): one line per time step with the indices of the elements"
_AND_RESET = "that spike, `reset` between two samples."
_BUILDS = {
    "plain": f"""`make` builds `@STEM@`, which {_TEXT_PROGRAM}
{_AND_RESET}

    printf '0 3\\n1\\n\\n' | ./@STEM@""",
    "cmake": f"""`cmake -B build && cmake --build build` builds `@PREFIX@_text`, which {_TEXT_PROGRAM}
{_AND_RESET} In a project of yours: `add_subdirectory` of this folder, and `target_link_libraries(main @PREFIX@)`.

    printf '0 3\\n1\\n\\n' | build/@PREFIX@_text""",
    "arduino": """This folder is a library for Arduino: copy it to `libraries/@PREFIX@` of your sketchbook,
and include `@STEM@.h`. On AVR boards constants are in RAM: tables and state together have to fit there.""",
    "platformio": f"""This folder is a project for PlatformIO; `lib/@PREFIX@` is its library, for projects of yours.
`pio run` builds a program for this machine that {_TEXT_PROGRAM}
{_AND_RESET}""",
}
_FILES = {
    "plain": "| `main.c`, `Makefile` | the program that reads spikes |",
    "cmake": "| `main.c`, `CMakeLists.txt` | the library, and the program that reads spikes |",
    "arduino": "| `library.properties`, `examples` | for Arduino's tools |",
    "platformio": "| `platformio.ini`, `src/main.c`, `lib/@PREFIX@/library.json` | for PlatformIO |",
}
_TEST_RUNS = {"plain": "`make selftest`", "cmake": "`ctest --test-dir build`"}


def layout_texts(options: COptions) -> dict[str, str]:
    """Passages of README.md that depend on the layout, for ``renamed``."""
    build, files = _BUILDS[options.layout], _FILES[options.layout]
    if options.selftest:
        test = f"{options.folder}{options.stem}_selftest.c"
        host = f" {_TEST_RUNS[options.layout]} runs it here." if options.layout in _TEST_RUNS else ""
        build += (
            f"\n\n`nb_selftest` runs {options.selftest} time steps on the device, and returns 0 if all are equal.{host}"
        )
        files += f"\n| `{test}` | the self-test, with its inputs and expected outputs |"
    measure = _MEASURE if options.layout == "plain" else ""
    return {"BUILD": build, "FILES": files, "MEASURE": measure, "FOLDER": options.folder}


_MEASURE = """ `make size` measures the code. For a Cortex-M4:

    make clean && make CC=arm-none-eabi-gcc SIZE=arm-none-eabi-size CFLAGS="-Os -mcpu=cortex-m4 -mthumb" size"""


def built_files(options: COptions) -> list[str]:
    """Files that make adds to the folder."""
    if options.layout != "plain":
        return []
    return [options.stem, "main.o", f"{options.stem}.o", *([f"{options.stem}_selftest"] if options.selftest else [])]


def _sketch(plan: CPlan, options: COptions) -> str:
    """An example for Arduino: events, a time step, and what the outputs send."""
    names = function_names(plan)["inputs"].values()
    named = zip(plan.inputs, names, strict=True)
    events = [f"    // {name}(&model, index{'' if s.is_binary else ', value'});\n" for s, name in named]
    shown = []
    for n in (*plan.shown, *plan.outputs):
        value, is_real = f"model.out.{n.id}[i]", n.source.type == FLOAT
        shown += [f"    for (uint32_t i = 0; i < {n.source.size}; ++i)", f"        if ({differs(n.source, value)}) {{"]
        shown += [f"            Serial.print({text});" for text in (f'"{n.id} "', "i", '" "')]
        shown += [f"            Serial.println({f'{value}, 6' if is_real else f'(long){value}'});", "        }"]
    marks = {
        "@SETUP@": "    Serial.println(nb_selftest(&model)); // 0: equal\n    nb_reset(&model);\n"
        if options.selftest
        else "",
        "@GIVEN@": "".join(["    // events of this time step:\n", *events]) if events else "",
        "@SHOWN@": "".join(f"{line}\n" for line in shown),
    }
    text = template("sketch.ino", options)
    for mark, lines in marks.items():
        text = text.replace(mark, options.renamed(lines))
    return text
