"""Options of the C target, and the names of files and identifiers that follow from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from nirbridge.emitters.artifact import MANIFEST, Artifact, read_document
from nirbridge.emitters.target import wrong_choices
from nirbridge.errors import Diagnostic, UsageError, quoted

SUBJECT = "options of emitter 'c'"
DEFAULT = "nb"
PREFIX_MAX = 32
SELFTEST_MAX = 10_000
_HEADERS = """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
alloca endian features sched unistd"""
_BUILD = """all all_build clean edit_cache gnumakefile help install makefile package package_source preinstall
rebuild_cache run_tests selftest size test zero_check"""
_TAKEN = frozenset(f"{_HEADERS} {_BUILD} arduino main model weights aux con nul prn".split())
"""Headers of C, other files of the program, targets of make and CMake, and devices of Windows."""
_ENDS = ("_weights", "_selftest")
"""Ends of the program's own files."""
_IDENTIFIER = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*")
_WORDS = r"(?:\b|(?<=-D))(?:nb|NB)_|@(?:STEM|PREFIX|WEIGHTS)@"
_OWN, _LINKED = re.compile(_WORDS), re.compile(rf"{_WORDS}|(?<![.>\w])(?=[sp]\d+_\w)")


@dataclass(frozen=True, slots=True)
class COptions:
    """Options for emitting a program in C.

    Several programs in one firmware need prefixes that differ in more than their case.
    """

    prefix: Annotated[str, "Prefix of every identifier, macro and file, so that several models fit in one program"] = (
        DEFAULT
    )
    layout: Annotated[Literal["plain", "cmake", "arduino", "platformio"], "Layout of the folder"] = "plain"
    dtype: Annotated[
        Literal["integers", "float32"] | None, "Numbers: a chip's integers, the default, or the network's own reals"
    ] = None
    hops: Annotated[bool, "Delays as on the chip, where every hop takes a time step; else the network's own"] = True
    selftest: Annotated[int, "Time steps of a self-test that the device runs; 0: none"] = 0

    @property
    def in_reals(self) -> bool:
        """True where it takes the network itself, without a chip."""
        return self.dtype == "float32"

    @property
    def stem(self) -> str:
        """Name of header and source without their ends."""
        return "model" if self.prefix == DEFAULT else self.prefix

    @property
    def weights(self) -> str:
        """Name of the file of tables."""
        return "weights.h" if self.prefix == DEFAULT else f"{self.prefix}_weights.h"

    @property
    def folder(self) -> str:
        """The folder of the network's sources, with a slash at its end."""
        return {"arduino": "src/", "platformio": f"lib/{self.prefix}/src/"}.get(self.layout, "")

    def renamed(self, text: str) -> str:
        """Text with the program's names: printed with ``nb_``, ``NB_``, ``@STEM@``, ``@PREFIX@`` and ``@WEIGHTS@``.

        In one pass, so that no part of a name is taken for another one.
        """
        return _OWN.sub(lambda match: self._words[match[0]], text)

    def linked(self, text: str) -> str:
        """``renamed``, and the functions and tables of projections and populations (``s0_add``) with the prefix.

        Fields of structs, which follow ``.`` or ``->``, keep their names.
        """
        return _LINKED.sub(lambda match: self._words[match[0]], text)

    @property
    def _words(self) -> dict[str, str]:
        start = f"{self.prefix}_"
        own = {"@STEM@": self.stem, "@PREFIX@": self.prefix, "@WEIGHTS@": self.weights}
        return {"": start, "nb_": start, "NB_": start.upper(), **own}


def check_options(options: COptions) -> None:
    """Refuse a prefix that is no usable identifier, unknown layouts, and lengths out of range.

    Raises:
        UsageError: every wrong option.
    """
    UsageError.raise_all([*wrong_choices(options, SUBJECT), *_problems(options)])


def _problems(options: COptions) -> Iterator[Diagnostic]:
    prefix, steps = options.prefix, options.selftest
    if not isinstance(prefix, str) or len(prefix) > PREFIX_MAX or not _IDENTIFIER.fullmatch(prefix):
        limit = f"a prefix is a letter, then letters, digits and single underscores, at most {PREFIX_MAX} characters"
        yield Diagnostic(SUBJECT, f"prefix {quoted(str(prefix))}", limit)
    elif prefix.lower() in _TAKEN or prefix.lower().endswith(_ENDS):
        limit = f"{prefix.lower()} is the name of another file, or of a target of a build"
        yield Diagnostic(SUBJECT, f"prefix {quoted(prefix)}", limit, "choose another prefix")
    if options.dtype not in (None, "integers", "float32"):
        yield Diagnostic(SUBJECT, f"dtype {options.dtype!r}", "integers or float32")
    if isinstance(steps, bool) or not isinstance(steps, int) or not 0 <= steps <= SELFTEST_MAX:
        yield Diagnostic(SUBJECT, f"selftest {steps!r}", f"a self-test has 0 to {SELFTEST_MAX:,} time steps")


def recorded_options(artifact: Artifact) -> COptions:
    """The options that a program was emitted with, from its manifest.

    Raises:
        FileError: no program, or a manifest without them.
        UsageError: see ``check_options``.
    """
    record = read_document(artifact, MANIFEST, {"options": dict[str, Any]})["options"]
    options = COptions(**{f.name: record[f.name] for f in fields(COptions) if f.name in record})
    check_options(options)
    return options
