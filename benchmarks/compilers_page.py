"""The page of compilers, written from the rows of ``compilers.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.stack_page import processor

ROWS: Mapping[tuple[str, str], str] = {
    ("reference", "float32"): "NumPy, the definition",
    ("fast", "float32"): "nirbridge's kernels (numba)",
    ("event", "float32"): "the same, driven by events",
    ("onnx", "float32"): "ONNX Runtime: one Scan",
    ("openvino", "float32"): "OpenVINO, the same model",
    ("jax", "float32"): "XLA, `lax.scan`",
    ("iree", "float32"): "IREE, llvm-cpu from linalg",
    ("iree --cpu host", "float32"): "the same, for this processor",
    ("iree --cpu host --batch 32", "float32"): "the same, for 32 samples",
    ("inductor", "float32"): "C++ by AOTInductor",
    ("inductor --unroll 8", "float32"): "the same, 8 time steps a call",
    ("tvm", "float32"): "TVM, untuned",
    ("tinygrad", "float32"): "tinygrad, without BEAM",
    ("triton", "float32"): "Triton's interpreter, in NumPy",
    ("triton --form mega", "float32"): "the same, one kernel for all",
    ("fixed", "integers"): "nirbridge's kernels (numba)",
    ("c", "integers"): "C, `cc -O3`",
    ("onnx", "integers"): "ONNX Runtime: one Scan",
    ("lava", "integers"): "Lava: a process for each population",
}
"""Back ends and numbers, and what runs."""
LOOPS: Mapping[str, str] = {
    "onnx": "in the runtime; each time step by itself",
    "openvino": "in the runtime; each time step by itself",
    "jax": "in the program; the first product of all time steps at once",
    "iree": "in the program; products of several time steps at once by an [estimate](mlir.md#forms)",
    "inductor": "outside, a call for each time step; `--unroll 8` makes 8 of them one program",
    "tvm": "outside, a call for each time step",
    "tinygrad": "outside, a call for each time step",
    "triton": "outside; with `--form mega` within the kernel",
}
"""Where the loop over time is, and whether products of several time steps are joined."""
INTRO = """# Compilers: the same program in each of them

This page is written by `python -m benchmarks.compilers` ([how](../benchmarks/README.md)). It compares the programs that
`nirbridge emit` prints for ONNX Runtime, OpenVINO, XLA, IREE, TorchInductor, TVM, tinygrad, Triton, C and Lava with
nirbridge's own kernels, in one run. On your own model and machine: [`nirbridge bench MODEL --best`](bench.md).

## Which should I use?

* **To simulate here**: none of them. `nirbridge simulate` runs nirbridge's kernels, which gain where few neurons spike.
* **In a program of your own**: [C](c.md), in the integers of a chip, without a runtime; [IREE](iree.md) or
  [AOTInductor](inductor.md) in real numbers.
* **To give to others**: [ONNX](onnx.md), one file for any batch and any number of time steps, read by most runtimes.
* **On processors of Intel, or with weights in int8**: [OpenVINO](openvino.md), with NNCF.
* **To train further**: the module of [PyTorch](modules.md).
* **On a GPU**: [Triton](triton.md) runs all time steps of a small network in one launch, [JAX](jax.md) needs no other
  program than here; none of it has been timed on a card ([how to](gpu.md)).
* **To compare meanings**: [TVM](tvm.md) and [tinygrad](tinygrad.md), whose loop over time is Python's.

## Equal, and how fast

Microseconds per time step of the whole batch, at batch 1 and 32: the least of all runs, on one core. **Bold**: the
least of float32. A time is a program's own, without its start and compilation. Compare within a column: machines
differ.

* **Equality comes first.** Every spike of every population that a back end records is compared, with the reference or,
  in integers of loihi2, with the fixed-point simulator; a back end that differs is not timed.
* `digits_mlp`, `digits_cnn`: [trained](../examples/train_digits.py), on test images. `net_a`: 784-1000-10 LIF,
  random spikes, 0.1 per time step and input. 100 time steps each.
* Compilation and size (of the program's files) are those of `digits_cnn`.

"""
NOTES = """The programs of C, Lava and of IREE without `--batch` take one sample at a time. Those of IREE and
TVM are by default for any x86-64, without fused multiply-add, and their large products are slow then. Triton's kernels
are for GPUs: the interpreter shows that they are right, and nothing of their speed.

| not in this run | equal | why |
| --- | --- | --- |
| dpnp (SYCL) | yes, on its CPU | [an environment of its own](simulators.md#array-libraries-and-devices), 2.9 GB |
| ExecuTorch | yes, portable and XNNPACK | `python -m benchmarks.executorch`; installs with `--no-deps` alone |
| CuPy | not known | needs a GPU: [figures](gpu.md) |

"""
FACTS_INTRO = """## What fusing, batching of time and memory planning did

One time step of `digits_cnn` at batch 1 (four convolutions, a product, three populations), counted in the compilers'
own stages.

"""
FACTS_NOTES = """Their gain is measured where a form can be turned on and off: [forms, timed](stack.md). The first
product of several time steps at once makes `net_a` in IREE 5 times faster at batch 1, and slower at batch 32.
Fusing in advance gains nothing in IREE, which fuses by itself, and up to 4 times in plain loops. Products by events,
which none of these compilers makes, gain up to 21 times.

"""
CAN = """## What each can do that the others cannot

| back end | |
| --- | --- |
| nirbridge's kernels | products by events; streams of input, saved states; nothing to emit |
| C | runs without an operating system, in kilobytes, in a chip's integers |
| Lava | processes of the framework that runs on Loihi |
| ONNX Runtime | a chip's integers and real numbers in one format of files |
| OpenVINO | products in int8, calibrated by NNCF, beside a membrane in float32 |
| JAX | `vmap` and `jit` around the network; StableHLO |
| IREE | one module for a processor or a Vulkan device, which loads without Python |
| AOTInductor | the module that was trained, as a library for C++ programs with libtorch |
| TVM | code for processors other than this one; its own [search for schedules](tvm.md#its-own-search) |
| tinygrad | kernels to read, in a package without dependencies; a beam search for them |
| Triton | all layers and time steps in one launch; code for GPUs of NVIDIA and AMD made without one |
| dpnp | devices of SYCL, by the array-API reference |
| ExecuTorch | `.pte` files for its runtimes on phones (not tried there) |

"""
PACKAGES = (
    "onnxruntime",
    "openvino",
    "jax",
    "iree-base-compiler",
    "torch",
    "apache-tvm",
    "tinygrad",
    "triton",
    "numba",
    "numpy",
)


def page(records: Mapping[str, Any], nets: Sequence[str], batches: Sequence[int]) -> str:
    """The text of docs/compilers.md."""
    rows, facts = records["rows"], records["facts"]
    heads = ["back end", "what runs", "numbers", "equal", *(f"`{net}`, {b}" for net in nets for b in batches)]
    lines = [_line(rows, key, nets, batches) for key in ROWS]
    told = [[f"`{name}`", facts[name], loop] for name, loop in LOOPS.items() if name in facts]
    parts = [INTRO, _markdown([*heads, "compilation", "size"], lines), NOTES]
    parts += [FACTS_INTRO, _markdown(["back end", "one time step", "loop over time"], told), FACTS_NOTES]
    return "".join([*parts, CAN, f"## Versions\n\n{', '.join([*_versions(), processor()])}.\n"])


def _line(rows: Mapping[str, Any], key: tuple[str, str], nets: Sequence[str], batches: Sequence[int]) -> list[str]:
    found = {net: rows.get(net, {}).get(", ".join(key)) for net in nets}
    cells = [_time(rows.get(net, {}), ", ".join(key), str(batch)) for net in nets for batch in batches]
    row = found.get("digits_cnn") or {}
    seconds, size = row.get("compile_s"), row.get("artifact_bytes")
    more = ["" if seconds is None else f"{seconds:.2g} s", "" if size is None else f"{size / 1000:,.0f} kB"]
    return [f"`{key[0]}`", ROWS[key], key[1], _equal(found), *cells, *more]


def _equal(found: Mapping[str, Any]) -> str:
    """Yes, or for each network why not."""
    there = {net: row for net, row in found.items() if row is not None}
    if not there:
        return "not measured"
    if all(row["status"] == "equal" for row in there.values()):
        return "; ".join(["yes", *dict.fromkeys(row["reason"] for row in there.values() if row["reason"])])
    texts = {net: row["reason"] or row["status"] for net, row in there.items() if row["status"] != "equal"}
    return "; ".join(f"`{net}`: {text}" for net, text in texts.items()).replace("|", "/")


def _time(rows: Mapping[str, Any], key: str, batch: str) -> str:
    us = rows.get(key, {}).get("us_per_step", {}).get(batch)
    if us is None:
        return ""
    others = [r["us_per_step"][batch] for r in rows.values() if r["numbers"] == "float32" and batch in r["us_per_step"]]
    text = f"{us:,.0f}" if us >= 100 else f"{us:.3g}"
    return f"**{text}**" if key.endswith("float32") and us == min(others) else text


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return found
