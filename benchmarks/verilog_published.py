"""Spiking networks on FPGAs as published: figures of the abstracts and pages named, nothing measured here."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One design; an empty text where the source named does not say.

    ``cells``: LUTs or logic cells as the source counts them. ``equality``: what the source says about the hardware
    and its software model.
    """

    name: str
    network: str
    device: str = ""
    cells: str = ""
    block_rams: str = ""
    mhz: str = ""
    image: str = ""
    accuracy: str = ""
    tool: str = ""
    equality: str = ""
    source: str = ""


def arxiv(number: str) -> str:
    """A link in Markdown."""
    return f"[{number}](https://arxiv.org/abs/{number})"


PUBLISHED = (
    Published(
        "Spiker+",
        "MNIST 784-128-10",
        "Xilinx",
        "7,612",
        "18",
        "",
        "780 us",
        "93.85 %",
        "Vivado",
        "",
        arxiv("2401.01141"),
    ),
    Published(
        "Flexi-NeurA",
        "MNIST 256-128-10",
        "",
        "1,623",
        "7",
        "",
        "1.1 ms",
        "97.23 %",
        "",
        "",
        arxiv("2602.18140"),
    ),
    Published(
        "snn-fpga",
        "MNIST, IF without leak",
        "Artix-7",
        "6,358",
        "40.5",
        "100",
        "520 us",
        "",
        "Vivado, Vitis",
        "",
        arxiv("2507.07284"),
    ),
    Published(
        "Windhager et al.",
        "MNIST, spikes as differences of time",
        "UltraScale+",
        image="290 us",
        accuracy="> 99 %",
        source=arxiv("2505.11252"),
    ),
    Published(
        "Lee et al.",
        "MNIST, time to the first spike",
        "Zynq-7020",
        mhz="80",
        image="0.14 us",
        accuracy="87.40 %",
        equality="classes of 10,000 images",
        source=arxiv("2604.22179"),
    ),
    Published(
        "hls4ml",
        "Heidelberg digits, dense",
        image="34 us",
        tool="Vivado, HLS",
        equality="compared with its software",
        source=arxiv("2606.10008"),
    ),
    Published(
        "sc-neurocore 4.1.0",
        "Heidelberg digits, integers",
        "iCE40 UP5K (one layer)",
        tool="yosys, nextpnr",
        equality="bit for bit with its own integers",
        source="[its release notes](https://github.com/anulum/sc-neurocore/releases/tag/v4.1.0)",
    ),
    Published(
        "Catalyst N2",
        "a processor of 4 cores",
        "Artix-7 100T",
        mhz="100",
        source="[its README](https://github.com/catalyst-neuromorphic/catalyst-n2)",
    ),
    Published(
        "NIR2FPGA",
        "dataflow of a NIR graph in SpinalHDL",
        source="[a tutorial at ISCAS 2026](https://github.com/Enotrium/26iscas)",
    ),
)
"""None of these figures is of the networks of this repository: cells of different families are not the same."""
