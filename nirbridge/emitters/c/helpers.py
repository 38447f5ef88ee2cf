"""Small C functions that several parts of a program call; a program holds those that it uses."""

from __future__ import annotations

_DECAYED = """/* sign(x) * ((|x| * keep) >> 12), keep of 4096, without a product of more than {bits} bits */
static {kind} nb_decayed{name}({kind} x, uint32_t keep)
{{
    const u{kind} size = x < 0 ? (u{kind})0 - (u{kind})x : (u{kind})x;
    const u{kind} left = (size >> 12) * keep + (((size & 4095u) * keep) >> 12);

    return x < 0 ? -({kind})left : ({kind})left;
}}
"""
_SHIFTED = """/* x >> by, rounded down: C leaves the shift of a negative number to the compiler */
static {kind} nb_shifted{bits}({kind} x, uint32_t by)
{{
    return x < 0 ? -({kind})(~(u{kind})x >> by) - 1 : ({kind})((u{kind})x >> by);
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


def _of_both(text: str) -> list[str]:
    """A function for 32 and for 64 bits."""
    return [
        text.format(bits=32, kind="int32_t", name=""),
        text.format(bits=64, kind="int64_t", name="64"),
    ]


def _helpers() -> dict[str, str]:
    decayed, shifted, clear = _of_both(_DECAYED), _of_both(_SHIFTED), _of_both(_CLEAR)
    return {
        "nb_lowest": _LOWEST,
        "nb_pack": _PACK,
        "nb_decayed": decayed[0],
        "nb_decayed64": decayed[1],
        "nb_shifted32": shifted[0],
        "nb_shifted64": shifted[1],
        "nb_clear32": clear[0],
        "nb_clear64": clear[1],
    }


HELPERS = _helpers()
"""Functions by name."""
