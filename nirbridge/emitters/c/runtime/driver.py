"""The program that a run compiles beside the emitted files: arrays in, arrays out, as bytes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nirbridge.emitters.c.plan import CPlan, Neurons
from nirbridge.simulators.types import Key

_TEXT = """/* Reads the inputs of every time step as bytes, and writes the recorded arrays.
   The line on stderr has the time of nb_step alone, without reading and writing. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model.h"

static nb_model model;
static nb_inputs in;

static double now(void)
{
    struct timespec moment = {0, 0};

    clock_gettime(CLOCK_MONOTONIC, &moment);
    return (double)moment.tv_sec + 1e-9 * (double)moment.tv_nsec;
}

int main(int count, char **words)
{
    const long samples = count > 2 ? atol(words[1]) : 1, steps = count > 2 ? atol(words[2]) : 0;
    double seconds = 0.0;

    for (long k = 0; k < samples; ++k) {
        nb_reset(&model);
        for (long t = 0; t < steps; ++t) {
@READ@
            const double start = now();
            nb_step(&model, &in);
            seconds += now() - start;
@WRITE@
        }
    }
    fprintf(stderr, "time steps took %.9f s\\n", seconds);
    return fflush(stdout) != 0;
}
"""
_INDENT = " " * 12


def kept_arrays(plan: CPlan, keys: Collection[Key]) -> list[tuple[Neurons, str]]:
    """(population, variable) of the requested arrays, in a fixed order."""
    return [(n, v) for n in plan.neurons for v in ("s", "u", "v") if (n.population.name, v) in keys]


def driver_text(plan: CPlan, kept: Sequence[tuple[Neurons, str]]) -> str:
    """The file ``driver.c``."""
    read = [_checked("fread", f"in.{source.id}", "stdin") for source in plan.inputs]
    write = [_checked("fwrite", f"model.{n.id}_{variable}", "stdout") for n, variable in kept]
    return _TEXT.replace("@READ@", "\n".join(read)).replace("@WRITE@", "\n".join(write))


def _checked(function: str, array: str, stream: str) -> str:
    return f"{_INDENT}if ({function}({array}, sizeof {array}, 1, {stream}) != 1)\n{_INDENT}    return 3;"


def numpy_type(kind: str) -> str:
    """The numpy type of a C type, in the order of bytes of this machine."""
    return kind.removesuffix("_t")
