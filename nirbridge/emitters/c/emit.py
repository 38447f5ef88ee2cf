"""C99 as a target: a quantized network as source files that need a compiler alone."""

from __future__ import annotations

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.c.main_file import main_text, readme_text, template
from nirbridge.emitters.c.plan import c_plan
from nirbridge.emitters.c.render import header, source_text, weights_header
from nirbridge.emitters.c.tables import tables
from nirbridge.emitters.target import Target, later
from nirbridge.network.neurons import ALL
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_bytes

NETWORK = "network.q.npz"
BUILDS = ("model", "main.o", "model.o")
"""Files that make adds."""


def emit(quantized: QuantizedNetwork) -> Artifact:
    """The C program of a quantized network; the same network gives the same bytes.

    Raises:
        ModelError: what C cannot hold: more than 20 million weights, 64-bit sums that may overflow.
    """
    plan = c_plan(quantized)
    found = list(tables(plan))
    texts = {
        "model.h": header(plan, template("model.h")),
        "model.c": source_text(plan, HELPERS),
        "weights.h": weights_header(found),
        "main.c": main_text(plan),
        "Makefile": template("Makefile"),
        "README.md": readme_text(plan, found),
    }
    files = {path: text.encode("utf-8") for path, text in texts.items()}
    files[NETWORK] = quantized_bytes(quantized)
    facts = {"kind": "c", "schema": 1, "builds": list(BUILDS), "tables_bytes": sum(t.bytes for t in found)}
    return make_artifact(files, facts)


C = Target(
    name="c",
    summary="C99 that a compiler alone builds, in the integers of a chip",
    takes=(QuantizedNetwork,),
    hint="quantize the network for a chip",
    make=lambda quantized, options: emit(quantized),
    start=later("nirbridge.emitters.c.run:run_program"),
    one_sample_at_a_time=True,
    carries=ALL,
)


# -- helpers -------------------------------------------------------------------------------------------------------
# Small C functions that several parts of a program call; a program holds those that it uses.

_SHIFTED = """/* x >> by, rounded down: C leaves the shift of a negative number to the compiler */
static {kind} nb_shifted{bits}({kind} x, uint32_t by)
{{
    return x < 0 ? -({kind})(~(u{kind})x >> by) - 1 : ({kind})((u{kind})x >> by);
}}
"""
_MIN = """static {kind} nb_min{bits}({kind} a, {kind} b)
{{
    return a < b ? a : b;
}}
"""
_MAX = """static {kind} nb_max{bits}({kind} a, {kind} b)
{{
    return a > b ? a : b;
}}
"""
_ABS = """static {kind} nb_abs{bits}({kind} x)
{{
    return x < 0 ? {negative} : x;
}}
"""
_NEGATIVE = {32: "-x", 64: "(int64_t)((uint64_t)0 - (uint64_t)x)"}
"""In 64 bits without a sign: then compilers make vectors of it (1.02 of the time by hand, else 1.25)."""
_QUOTIENT = """/* a / b, rounded down, for b above 0 */
static {kind} nb_quotient{bits}({kind} a, {kind} b)
{{
    return a / b - (a % b < 0);
}}
"""
_CLEAR = """static void nb_clear{bits}({kind} *values, uint32_t count)
{{
    for (uint32_t i = 0; i < count; ++i)
        values[i] = 0;
}}
"""
_LOWEST = """/* the position of the lowest bit that is set; bits is not 0 */
#if defined(__GNUC__)
static uint32_t nb_lowest(uint32_t bits)
{
    return (uint32_t)__builtin_ctz(bits);
}
#else
static uint32_t nb_lowest(uint32_t bits)
{
    uint32_t place = 0;

    while ((bits >> place & 1u) == 0u)
        ++place;
    return place;
}
#endif
"""
_PACK = """/* bytes that are 0 or not as bits, 32 in a word */
static void nb_pack(uint32_t *words, const uint8_t *values, uint32_t count)
{
    const uint32_t whole = count & ~31u;
    uint32_t rest = 0;

    for (uint32_t first = 0; first < whole; first += 32u) {
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 32u; ++k)
            bits |= (uint32_t)(values[first + k] != 0u) << k;
        words[first / 32u] = bits;
    }
    for (uint32_t i = whole; i < count; ++i)
        rest |= (uint32_t)(values[i] != 0u) << (i - whole);
    if (whole < count)
        words[whole / 32u] = rest;
}
"""


def _helpers() -> dict[str, str]:
    own = {"min": _MIN, "max": _MAX, "abs": _ABS, "quotient": _QUOTIENT, "shifted": _SHIFTED, "clear": _CLEAR}
    widths = ((32, "int32_t"), (64, "int64_t"))
    found = {
        f"nb_{n}{bits}": text.format(bits=bits, kind=kind, negative=_NEGATIVE[bits])
        for n, text in own.items()
        for bits, kind in widths
    }
    return {"nb_lowest": _LOWEST, "nb_pack": _PACK, **found}


HELPERS = _helpers()
"""Functions by name."""
