"""C99 as a target: a network in integers or in float32 as source files that need a compiler alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.c.costs import cost_facts, costs, latencies, ports, program_facts, takes_text
from nirbridge.emitters.c.interface import function_names, functions, macros, shown_as
from nirbridge.emitters.c.layouts import TEMPLATES, built_files, laid_out, layout_texts, template
from nirbridge.emitters.c.options import COptions, check_options
from nirbridge.emitters.c.outputs import direct_outputs
from nirbridge.emitters.c.plan import FLOAT, CPlan, Neurons, Source, c_plan
from nirbridge.emitters.c.render import braced, header, input_type, source_text, weights_header
from nirbridge.emitters.c.selftest import golden, selftest_text
from nirbridge.emitters.c.synapses import differs, tables
from nirbridge.emitters.ports import NETWORK, PROGRAM, ProgramNames, real_names
from nirbridge.emitters.readme import filled, shape_text, table_name
from nirbridge.emitters.target import Target, later
from nirbridge.errors import UsageError, quoted
from nirbridge.files.regular import template_text
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
from nirbridge.quantization.model import FixedNeuron, QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_bytes


def emit(model: Network | QuantizedNetwork, options: COptions | None = None) -> Artifact:
    """The C program of a quantized network, or in float32 of a network; the same bytes for the same options.

    Raises:
        UsageError: a prefix that is no identifier, or numbers that the model does not have.
        ModelError: what C cannot hold: more than 20 million weights, 64-bit sums that may overflow.
    """
    chosen = options or COptions()
    check_options(chosen)
    chosen = replace(chosen, dtype=_dtype(model, chosen))
    plan = c_plan(model, hops=chosen.hops)
    found, extra = list(tables(plan)), _data(model, plan)
    about = {"costs": costs(plan, found), **ports(plan), "tables_bytes": sum(t.bytes for t in found)}
    stem, digest = chosen.stem, hashlib.sha256(next(iter(extra.values()))).hexdigest()
    marks = {"MACROS": macros(plan, chosen, about, digest)}
    marks["FUNCTIONS"] = chosen.renamed(functions(plan, bool(chosen.selftest)))
    texts = {
        f"{stem}.h": header(plan, template("model.h", chosen), chosen, marks),
        f"{stem}.c": source_text(plan, HELPERS, chosen),
        chosen.weights: weights_header(found, chosen),
    }
    if chosen.selftest:
        vectors = golden(plan, chosen.selftest)
        texts[f"{stem}_selftest.c"] = chosen.renamed(selftest_text(plan, vectors))
        about["selftest"] = {"steps": vectors.steps, "bytes": vectors.bytes, "active_outputs": vectors.active}
    texts = {path: text if path == chosen.weights else braced(text) for path, text in texts.items()}
    texts = laid_out(plan, chosen, texts, braced(main_text(plan, template("main.c", chosen))))
    texts["README.md"] = readme_text(plan, template("README.md", chosen), about, chosen)
    files = {path: text.encode("utf-8") for path, text in texts.items()}
    return make_artifact({**files, **extra}, {**_facts(chosen), **about})


def _facts(options: COptions) -> dict[str, Any]:
    """The part of the manifest that follows from the options."""
    own = {"builds": built_files(options), "options": asdict(options), "names": _names(options)}
    return {"kind": "c", "schema": 1, **own}


def _dtype(model: Network | QuantizedNetwork, options: COptions) -> Literal["integers", "float32"]:
    """The numbers of the model, which have to be the requested ones. Raises UsageError."""
    numbers: Literal["integers", "float32"] = "float32" if isinstance(model, Network) else "integers"
    if options.dtype not in (None, numbers):
        hint = "quantize it for a chip, or leave dtype out" if numbers == "float32" else "emit the network itself"
        raise UsageError.of("model of emitter 'c'", f"numbers in {numbers}", f"dtype is {options.dtype}", hint)
    return numbers


def _data(model: Network | QuantizedNetwork, plan: CPlan) -> dict[str, bytes]:
    """The file of the integers, or of the names of a network in float32."""
    if isinstance(model, QuantizedNetwork):
        return {NETWORK: quantized_bytes(model)}
    return {PROGRAM: program_names(plan).as_json()}


def _names(options: COptions) -> dict[str, Any]:
    """Files and identifiers of a program, for those that compile and load it."""
    words = {word: f"{options.prefix}_{word}" for word in ("model", "inputs", "outputs", "reset", "step")}
    return {"header": f"{options.folder}{options.stem}.h", "sources": [f"{options.folder}{options.stem}.c"], **words}


def program_names(plan: CPlan) -> ProgramNames:
    """The names of a program in float32: fields of its struct by variable, and of its outputs."""
    network = plan.model
    assert isinstance(network, Network)
    names = real_names(network, {n.population.name: _variables(n) for n in plan.neurons}, "float32")
    by_name, direct = {n.population.name: n for n in plan.neurons}, direct_outputs(network)
    fields = {name: (f"out.{by_name[of].id}", by_name[of].out_type) for name, of in direct.items()}
    fields |= {o.name: (f"out.{o.id}", o.sums) for o in plan.outputs}
    return replace(names, facts={**names.facts, "fields": fields})


def _variables(n: Neurons) -> dict[str, str]:
    return {v: f"{n.id}_{v}" for v in n.step.variables if v != "s" or n.population.neuron.fires}


C = Target(
    name="c",
    summary="C99 that a compiler alone builds, in the integers of a chip or in float32",
    takes=(QuantizedNetwork, Network),
    hint="emit its quantized network, or the network itself in float32",
    options=COptions,
    make=emit,
    start=later("nirbridge.emitters.c.run:run_program"),
    one_sample_at_a_time=True,
    carries=ALL,
    facts=program_facts,
    session=later("nirbridge.emitters.c.session:open_program"),
    exact_reals=True,
)


# -- helpers -------------------------------------------------------------------------------------------------------
# Small C functions that several parts of a program call; a program holds those that it uses.

_SHIFTED = """/* x >> by, rounded down: C leaves the shift of a negative number to the compiler */
static {kind} nb_shifted{bits}({kind} x, uint32_t by)
{{
    const u{kind} bits = (u{kind})x;
    const u{kind} size = ((x < 0) ? ~bits : bits) >> by;

    return (x < 0) ? (-({kind})size - 1) : ({kind})size;
}}
"""
_MIN = """static {kind} nb_min{bits}({kind} a, {kind} b)
{{
    return (a < b) ? a : b;
}}
"""
_MAX = """static {kind} nb_max{bits}({kind} a, {kind} b)
{{
    return (a > b) ? a : b;
}}
"""
_ABS = """static {kind} nb_abs{bits}({kind} x)
{{
    return (x < 0) ? {negative} : x;
}}
"""
_NEGATIVE = {32: "-x", 64: "(int64_t)((uint64_t)0 - (uint64_t)x)"}
"""In 64 bits without a sign: then compilers make vectors of it (1.02 of the time by hand, else 1.25)."""
_QUOTIENT = """/* a / b, rounded down, for b above 0 */
static {kind} nb_quotient{bits}({kind} a, {kind} b)
{{
    return (a / b) - (((a % b) < 0) ? 1 : 0);
}}
"""
_CLEAR = """static void nb_clear{bits}({kind} *values, uint32_t count)
{{
    for (uint32_t i = 0; i < count; ++i)
        values[i] = 0;
}}
"""
_FLOOR = """/* the next whole number below; from 2 to the 23 on every float is whole */
static float nb_floor(float x)
{
    float whole = x;

    if ((x > -8388608.0f) && (x < 8388608.0f))
        whole = (float)(int32_t)x;
        whole = (whole > x) ? (whole - 1.0f) : whole;
    return whole;
}
"""
_LOWEST = """/* the position of the lowest bit that is set; bits is not 0 */
#if defined(__GNUC__)
static uint32_t nb_lowest(uint32_t bits)
{
    return (uint32_t)__builtin_ctzl(bits); /* int has 16 bits on some machines */
}
#else
static uint32_t nb_lowest(uint32_t bits)
{
    uint32_t place = 0;

    while (((bits >> place) & 1u) == 0u)
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

    for (uint32_t first = 0; first < whole; first += 32u)
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 32u; ++k)
            bits |= ((values[first + k] != 0u) ? UINT32_C(1) : UINT32_C(0)) << k;
        words[first / 32u] = bits;
    for (uint32_t i = whole; i < count; ++i)
        rest |= ((values[i] != 0u) ? UINT32_C(1) : UINT32_C(0)) << (i - whole);
    if (whole < count)
        words[whole / 32u] = rest;
}
"""


def _helpers() -> dict[str, str]:
    own = {"min": _MIN, "max": _MAX, "abs": _ABS, "quotient": _QUOTIENT, "shifted": _SHIFTED, "clear": _CLEAR}
    widths = ((32, "int32_t"), (64, "int64_t"))
    reals = {name: own[name].format(bits="f", kind="float") for name in ("min", "max", "clear")}
    found = {
        f"nb_{n}{bits}": text.format(bits=bits, kind=kind, negative=_NEGATIVE[bits])
        for n, text in own.items()
        for bits, kind in widths
    }
    narrow = {f"nb_clear{bits}": _CLEAR.format(bits=bits, kind=f"int{bits}_t") for bits in (8, 16)}
    found |= narrow | {f"nb_{name}f": text for name, text in reals.items()}
    return {"nb_lowest": _LOWEST, "nb_pack": _PACK, "nb_floor": _FLOOR, **found}


HELPERS = _helpers()
"""Functions by name."""


# -- main and README -----------------------------------------------------------------------------------------------
# The files ``main.c`` and ``README.md``.


def main_text(plan: CPlan, text: str) -> str:
    """The file ``main.c``; ``text``: its template."""
    kind, read, reals = ("float", "read_real", _READ_REAL) if plan.is_real else ("long", "read_number", "")
    marks = {"@SET@\n": _set_text(plan, kind), "@SHOW@\n": _show_text(plan), "@VALUE@": kind, "@READ@": read}
    marks |= {"@REALS@\n": reals, "@INCLUDES@\n": "#include <math.h>\n" if plan.is_real else ""}
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text


_READ_REAL = """/* One real number of the standard input, up to the next space. */
static int read_real(int *c, float *value)
{
    char text[64], *end = text;
    size_t count = 0;

    for (; *c != EOF && strchr(SPACE "\\n", *c) == NULL && count + 1 < sizeof text; *c = getchar())
        text[count++] = (char)*c;
    text[count] = '\\0';
    *value = strtof(text, &end);
    return count > 0 && *end == '\\0' && isfinite(*value);
}

"""


def _set_text(plan: CPlan, kind: str) -> str:
    lines = [
        "/* One element of all inputs, one after the other. 0: there is no such element, or it takes no such value. */"
    ]
    lines += [f"static int set_input(long index, {kind} value)", "{"]
    first = 0
    for source in plan.inputs:
        lines.append(f"    if (index >= {first} && index < {first + source.size})")
        if not plan.is_real:
            low, high = _range(plan, source)
            lines += [f"        if (value < {low} || value > {high})", "            return 0;"]
        lines.append(f"        inputs.{source.id}[index - {first}] = ({input_type(source)})value;")
        lines.append("        return 1;")
        first += source.size
    if not plan.inputs:
        lines += ["    (void)index;", "    (void)value;"]
    return "\n".join([*lines, "    return 0;", "}", ""]) + "\n"


def _range(plan: CPlan, source: Source) -> tuple[int, int]:
    port = plan.quantized.inputs[plan.inputs.index(source)]
    return (-port.value_max, port.value_max) if port.graded else (0, 1)


def _show_text(plan: CPlan) -> str:
    lines = ["/* The elements of all outputs that are not 0, one after the other, as a line. */"]
    lines += ["static void show_outputs(void)", "{"]
    lines += ['    const char *between = "";', ""] if plan.shown or plan.outputs else []
    first = 0
    for n in (*plan.shown, *plan.outputs):
        value = f"model.out.{n.id}[i]"
        lines += [f"    for (long i = 0; i < {n.source.size}; ++i)", f"        if ({differs(n.source, value)})"]
        if n.source.is_binary:
            lines.append(f'            printf("%s%ld", between, i + {first});')
        elif n.source.type == FLOAT:
            lines.append(f'            printf("%s%ld:%.9g", between, i + {first}, (double){value});')
        else:
            lines.append(f'            printf("%s%ld:%ld", between, i + {first}, (long){value});')
        lines.append('            between = " ";')
        first += n.source.size
    return "\n".join([*lines, "    putchar('\\n');", "}", ""]) + "\n"


def readme_text(plan: CPlan, text: str, about: Mapping[str, Any], options: COptions) -> str:
    """The file ``README.md``; ``text``: its template; ``about``: the facts of the manifest."""
    values = {
        **_numbers(plan),
        **{name: options.renamed(part) for name, part in layout_texts(options).items()},
        "FUNCTIONS": options.renamed(_functions_table(plan, options)),
        "COSTS": _table(("", ""), cost_facts(about)),
        "INPUTS": _inputs_table(plan),
        "OUTPUTS": _outputs_table(plan),
        "POPULATIONS": _populations_table(plan),
    }
    return filled(text, values)


def _functions_table(plan: CPlan, options: COptions) -> str:
    """The small functions of the header that every program has, or its ports by their labels."""
    names = function_names(plan)
    rows = [(f"`{name}`", "an event of the next time step") for name in names["inputs"].values()]
    for port in plan.model.outputs:
        n, end = shown_as(plan, port), names["outputs"].get(port.name, "")
        if isinstance(n, Neurons) and n.population.neuron.fires:
            rows.append((f"`nb_count{end}`", f"adds the spikes of `model.out.{n.id}` to counts, over a window"))
        if n is not None:
            rows.append((f"`nb_argmax{end}`", "the index of the largest count or value"))
    if options.selftest:
        rows.append(("`nb_selftest`", "0 where all time steps of the self-test are equal to the simulator's"))
    return _table(("function", "does"), rows)


def _numbers(plan: CPlan) -> dict[str, str]:
    """Passages of the README that depend on the numbers of a program."""
    if plan.is_real:
        return {
            "NUMBERS": "in float32, with its own delays, bit for bit as nirbridge's reference",
            "LIBRARY": "",
            "GRADED": "or any real number",
            "CONVERSION": "Numbers are those of the network: nothing is scaled.",
            "LATENCY": "An output has no latency: it is that of the same time step in the network. A read-out gives v.",
            "NETWORK": "| `program.json` | names and shapes, for `nirbridge run` |",
        }
    note = "the same integers as a file of nirbridge, with all names: for `nirbridge show` and `nirbridge emit`"
    chip = quoted(plan.quantized.chip)[1:-1]
    return {
        "NUMBERS": f"in the integers of the chip {chip}, bit for bit as nirbridge's fixed-point",
        "LIBRARY": _LIBRARY,
        "GRADED": "whole numbers where an input is graded",
        "CONVERSION": template_text(TEMPLATES / "inputs.md.txt").rstrip("\n"),
        "LATENCY": _LATENCY,
        "NETWORK": f"| `{NETWORK}` | {note} |",
    }


_LIBRARY = """ At `-Os` gcc makes `memset` of loops
that clear arrays: without a C library add `-ffreestanding`, or link its `memset` (on a Cortex-M4 about 160 bytes)."""
_LATENCY = """\
A value that an input has in one time step reaches an output some time steps later; `latency` says how many. A read-out
gives its potential v as an integer; v / scale + offset is the value in reals. So 32 time steps of data take
32 + latency calls; `nirbridge run` records an output from its latency on."""


def _inputs_table(plan: CPlan) -> str:
    rows, first = [], 0
    for port, source in zip(plan.model.inputs, plan.inputs, strict=True):
        field, shape = f"`{input_type(source)} in.{source.id}[{source.size}]`", shape_text(port.shape)
        rows.append((field, table_name(port.name), shape, takes_text(port), _indices(first, source.size)))
        first += source.size
    return _table(("field", "input", "shape", "takes", "indices"), rows)


def _outputs_table(plan: CPlan) -> str:
    first, indices = 0, {}
    for name, size in ((n.name, n.source.size) for n in (*plan.shown, *plan.outputs)):
        indices[name] = _indices(first, size)
        first += size
    fields = {n.name: f"`model.out.{n.id}`" for n in (*plan.shown, *plan.outputs)}
    fields |= {p.name: f"`in.{s.id}`" for p, s in zip(plan.model.inputs, plan.inputs, strict=True)}
    if isinstance(plan.model, Network):
        direct = direct_outputs(plan.model)
        reads = [(port.name, direct.get(port.name, port.name), "0") for port in plan.model.outputs]
    else:
        reads = [(read.target, read.source, _span(read.delay_steps)) for read in plan.model.reads]
    late = latencies(plan)
    rows = [(table_name(port), fields[of], indices.get(of, ""), str(late[port]), delay) for port, of, delay in reads]
    return _table(("output", "made of", "indices", "latency", "after time steps"), rows)


def _populations_table(plan: CPlan) -> str:
    rows = []
    for n in plan.neurons:
        f = n.population.neuron
        kind = (
            "read-out" if not f.fires else f"reset {f.reset}" + (f", up to {f.max_spikes} spikes" * (f.max_spikes > 1))
        )
        row = (
            f"`{n.id}`",
            table_name(n.population.name),
            shape_text(n.population.shape),
            kind,
            *((_span(f.scale), _span(f.v_offset)) if isinstance(f, FixedNeuron) else ("1", "0")),
        )
        rows.append(row)
    return _table(("id", "population", "shape", "neurons", "scale", "offset"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _indices(first: int, size: int) -> str:
    return f"{first} to {first + size - 1}" if size else ""


def _span(values: Array) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
