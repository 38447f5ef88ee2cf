"""The sections of the site: their pages in reading order. A page of ``docs/`` in none of them is an error."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Section(NamedTuple):
    """A title, one sentence, and pages without their ending; ``*`` stands for a folder's pages in order."""

    title: str
    text: str
    pages: tuple[str, ...]


SECTIONS = {
    "tutorials": Section(
        "Tutorials",
        "Notebooks and pages to work through. Each notebook is a text file that runs when the site is built.",
        (
            "install",
            "notebooks/first_map",
            "notebooks/from_snntorch",
            "notebooks/from_norse",
            "notebooks/from_sinabs",
            "notebooks/from_spikingjelly",
            "notebooks/from_rockpool",
            "notebooks/own_chip",
            "notebooks/fine_tune",
            "notebooks/verify_in_lava",
            "notebooks/gallery",
            "first-steps",
            "tutorial",
            "tutorial-trained-to-chip",
            "tutorial-fine-tune",
            "tutorial-fpga",
            "profile-tutorial",
        ),
    ),
    "guides": Section(
        "Guides",
        "One page per stage of the compiler: the method, its limits, and how to read its results.",
        (
            "problems",
            "nir-files",
            "importers",
            "importers-frameworks",
            "attention",
            "lava-dl",
            "converted-networks",
            "network",
            "passes",
            "shapes",
            "partitioning",
            "mapping",
            "retiming",
            "quantization",
            "simulators",
            "sessions",
            "events",
            "bench",
            "gpu",
            "compare",
            "lava",
            "c",
            "verilog",
            "sanafe",
            "onnx",
            "jax",
            "iree",
            "openvino",
            "triton",
            "inductor",
            "tvm",
            "tinygrad",
            "mlir",
            "snn-mlir",
            "modules",
            "verify",
            "sweeps",
            "report",
            "view",
            "pictures",
            "plugins",
        ),
    ),
    "reference": Section(
        "Reference",
        "Python, the command line, files, chips and words.",
        ("api/index", "commands/index", "reference/*", "chips/index", "chips", "glossary"),
    ),
    "performance": Section(
        "Measured",
        "Pages written by the benchmarks: side by side with other tools in one run, as ratios.",
        (
            "benchmarks",
            "profile",
            "compilers",
            "programs",
            "stack",
            "equivalence",
            "round-trips",
            "equivalence-jax",
            "simulators-frameworks",
            "simulators-speed",
            "stream",
            "robustness",
        ),
    ),
    "development": Section(
        "Development",
        "How nirbridge is built, and why.",
        ("architecture", "contributing", "publish", "changelog", "decisions/index"),
    ),
}
START = "index"


def write(source: Path, docs: Path) -> None:
    """A page per section with its table of contents, and one of the decisions."""
    _decisions(source / "decisions")
    named = {START}
    for name, section in SECTIONS.items():
        pages = [p for page in section.pages for p in _expanded(source, page)]
        named |= set(pages)
        listed = "\n".join(pages)
        text = f"# {section.title}\n\n{section.text}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
        (source / f"{name}.md").write_text(text, encoding="utf-8")
    all_pages = {p.relative_to(docs).with_suffix("").as_posix() for p in docs.rglob("*.md")}
    lost = {p for p in all_pages - named if not p.startswith(("decisions/", "site/"))}
    if lost:
        raise SystemExit(f"docs/site/sections.py: no section has {', '.join(sorted(lost))}")


def _expanded(source: Path, page: str) -> list[str]:
    if not page.endswith("/*"):
        return [page]
    return sorted(p.relative_to(source).with_suffix("").as_posix() for p in (source / page[:-2]).glob("*.md"))


def _decisions(folder: Path) -> None:
    pages = sorted(p.stem for p in folder.glob("*.md"))
    text = "# Decisions\n\nHalf a page for each design that is not obvious: what was tried, and why it is so.\n\n"
    listed = "\n".join(pages)
    (folder / "index.md").write_text(f"{text}```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n", encoding="utf-8")
