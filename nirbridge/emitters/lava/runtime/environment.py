"""The isolated environment of Lava programs: location, installation and status.

It lies in ``$NIRBRIDGE_CACHE/lava``, else in ``nirbridge/lava`` of the user's cache folder, one folder per set of pins
and Python version; ``NIRBRIDGE_LAVA_PYTHON`` names another interpreter that has Lava, and is then used as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge.errors import FileError, UsageError, quoted
from nirbridge.files.atomic import write_new
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.files.regular import read_regular, template_bytes, template_text
from nirbridge.files.scratch import CACHE, cache_folder, locked, remove_folder

LAVA = "0.10.0"
OVERRIDE = "NIRBRIDGE_LAVA_PYTHON"
REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"
SHIM = Path(__file__).parents[1] / "templates" / "lava_compat.py.txt"
READY = "ready.json"
HOW_TO_MEND = "run: nirbridge doctor lava --install"
_PROBE_SECONDS = 120
_INSTALL_SECONDS = 1800
_PROBE = """
import ctypes, json, os, signal, sys
source, out, parent = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # it dies with the one who asks
    if os.getppid() != int(parent):
        sys.exit(1)
exec(compile(open(source, encoding="utf-8").read(), source, "exec"), {"__name__": "lava_compat"})
import lava.proc.conv.models, lava.proc.dense.models, lava.proc.lif.models, lava.proc.sparse.models
import lava.magma.compiler.compiler, lava.magma.runtime.runtime
from importlib import metadata
names = ("lava-nc", "numpy", "scipy", "networkx", "asteval")
versions = {name: metadata.version(name) for name in names}
versions["python"] = "%d.%d.%d" % sys.version_info[:3]
with open(int(out), "w", encoding="utf-8") as file:
    json.dump(versions, file, sort_keys=True)
"""
"""Answers through a pipe, since what Lava prints goes to stdout, and a file would stay where this process is killed."""


@dataclass(frozen=True, slots=True)
class LavaStatus:
    """Status of the environment: interpreter, its source, versions by package, and the trouble (empty if it works)."""

    python: Path | None
    source: str
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    trouble: str = ""
    hint: str = ""

    @property
    def ready(self) -> bool:
        """True if programs can be run."""
        return self.python is not None and not self.trouble


def find_python() -> Path:
    """The interpreter that runs Lava programs; a look at the files alone, quick.

    Raises:
        UsageError: there is none; the message says how to get one.
    """
    override = os.environ.get(OVERRIDE)
    if override:
        if not os.access(override, os.X_OK) or Path(override).is_dir():
            step = "name a Python that has lava-nc, or unset it"
            raise UsageError.of(OVERRIDE, f"{quoted(override)} is no program", "", step)
        return Path(override)
    for folder in _ready_folders():
        return _python_of(folder)
    found = f"none in {quoted(cache_folder() / 'lava')}"
    raise UsageError.of("Lava environment", found, f"{OVERRIDE} is not set", HOW_TO_MEND)


def environment_status() -> LavaStatus:
    """Status of the environment; Lava is imported in a process of its own."""
    override = os.environ.get(OVERRIDE)
    source = OVERRIDE if override else "cache"
    try:
        python = find_python()
    except UsageError as error:
        problem = error.problems[0]
        return LavaStatus(None, source, trouble=problem.found, hint=problem.hint)
    versions, trouble = _probe(python)
    if not trouble and versions.get("lava-nc") != LAVA:
        trouble = f"lava-nc is {versions.get('lava-nc')}, programs are written for {LAVA}"
    step = (
        ""
        if not trouble
        else f"mend or unset {OVERRIDE}"
        if override
        else "run: nirbridge doctor lava --install --again"
    )
    return LavaStatus(python, source, MappingProxyType(versions), trouble, step)


def install_environment(
    python: Path | None = None, *, again: bool = False, progress: Progress | None = None
) -> LavaStatus:
    """Makes the environment where it is not there yet; quick where it is, and nothing half made is left.

    Args:
        python: the interpreter to make it from (3.10 to 3.13); default: a Python 3.10 that is found, else the current.
        again: make it anew even if it is there.
        progress: called with a stage.

    Raises:
        UsageError: no interpreter that Lava runs on, or pip fails; its last lines are in the message.
        FileError: the cache folder cannot be written.
    """
    base = python or base_python()
    version = python_version(base)
    folder = cache_folder() / "lava" / _name(version)
    say = progress or no_progress
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / f"{folder.name}.lock"):
            if again or not _is_ready(folder):
                _make(folder, base, say)
            os.utime(folder / READY)  # the newest is the one that is used
    except OSError as error:
        step = f"set {CACHE} to a folder that can be written"
        raise FileError.of(f"folder {quoted(folder)}", f"cannot be made ({error.strerror})", "", step) from error
    versions = parse_json(read_regular(folder / READY), f"file {quoted(READY)}", bytes_max=ANSWER_BYTES_MAX)
    return LavaStatus(_python_of(folder), "cache", MappingProxyType(versions))


def _make(folder: Path, base: Path, say: Progress) -> None:
    remove_folder(folder)
    try:
        say("make an environment", None)
        _call([str(base), "-m", "venv", str(folder)], f"venv of {quoted(base)}")
        _install_packages(_python_of(folder), say)
        say("import Lava", None)
        versions, trouble = _probe(_python_of(folder))
        if trouble:
            step = "try another Python: nirbridge doctor lava --install --python PATH"
            raise UsageError.of("Lava environment", trouble, "", step)  # noqa: TRY301
        write_new(folder / READY, json.dumps(versions, sort_keys=True).encode())
    except BaseException:
        remove_folder(folder)
        raise


def _install_packages(python: Path, say: Progress) -> None:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    lines = [line for line in template_text(REQUIREMENTS).splitlines() if line and line[0] != "#"]
    lava = [line for line in lines if line.startswith("lava-nc")]
    say("install NumPy and SciPy", None)
    _call([*pip, "--no-deps", "--only-binary=:all:", *(line for line in lines if line not in lava)], "pip install")
    say("install Lava", None)
    _call([*pip, "--no-deps", "--ignore-requires-python", *lava], "pip install of lava-nc")


def _call(command: list[str], subject: str) -> None:
    """Run a command that must succeed; its output goes into the error."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_INSTALL_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        raise UsageError.of(subject, "did not end", f"{_INSTALL_SECONDS} s are given", "try again") from None
    except OSError as error:
        raise UsageError.of(subject, f"cannot be started ({error.strerror})", "", "name another --python") from error
    if done.returncode != 0:
        last_lines = " | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-4:])
        raise UsageError.of(subject, f"failed: {quoted(last_lines, 1000)}", "", "see what it says, then try again")


def _probe(python: Path) -> tuple[dict[str, str], str]:
    """Versions by package, and the trouble, if any; Lava is imported as programs import it."""
    read, write = os.pipe()
    with os.fdopen(read, encoding="utf-8") as answer:
        command = [str(python), "-I", "-c", _PROBE, str(SHIM), str(write), str(os.getpid())]
        taken: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "pass_fds": (write,)}
        try:
            done = subprocess.run(command, timeout=_PROBE_SECONDS, **taken)
        except (OSError, subprocess.TimeoutExpired) as error:
            return {}, f"{quoted(python)} cannot be run ({type(error).__name__})"
        finally:
            os.close(write)
        text = answer.read()
    if done.returncode != 0 or not text:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return {}, f"Lava cannot be imported by {quoted(python)}: {quoted(last[0], 300)}"
    return parse_json(text, "versions", bytes_max=ANSWER_BYTES_MAX), ""


def _name(version: tuple[int, int]) -> str:
    """Name of the folder: Lava's version, the pins, the Python."""
    pins = hashlib.sha256(template_bytes(REQUIREMENTS)).hexdigest()[:8]
    return f"lava-{LAVA}-py{version[0]}{version[1]}-{pins}"


def _ready_folders() -> Iterator[Path]:
    """Environments of these pins, the one that was installed last first."""
    pins = _name((0, 0)).rpartition("-")[2]
    folders = [p for p in (cache_folder() / "lava").glob(f"lava-{LAVA}-py*-{pins}") if _is_ready(p)]
    yield from sorted(folders, key=lambda p: ((p / READY).stat().st_mtime_ns, p.name), reverse=True)


def _is_ready(folder: Path) -> bool:
    return (folder / READY).is_file() and os.access(_python_of(folder), os.X_OK)


def _python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


# -- interpreters --------------------------------------------------------------------------------------------------

OLDEST, NEWEST = (3, 10), (3, 13)
_SECONDS = 30


def base_python() -> Path:
    """A Python 3.10 that really runs, else the current interpreter.

    Raises:
        UsageError: the current one is too old or too new, and no Python 3.10 was found.
    """
    for candidate in _candidates():
        if _version(candidate) == OLDEST:
            return candidate
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return Path(sys.executable)
    raise UsageError.of(
        "Python for Lava", "none found", _limit(), "name one: nirbridge doctor lava --install --python PATH"
    )


def python_version(python: Path) -> tuple[int, int]:
    """Major and minor version of an interpreter. Raises UsageError if it does not run or Lava does not run on it."""
    version = _version(python)
    if version is None:
        raise UsageError.of(f"Python {quoted(python)}", "does not run", "", "name another one with --python")
    if not OLDEST <= version <= NEWEST:
        raise UsageError.of(f"Python {quoted(python)}", f"is {version[0]}.{version[1]}", _limit(), "name another one")
    return version


def _limit() -> str:
    return f"Lava runs on {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def _candidates() -> Iterator[Path]:
    """Possible locations of Python 3.10: on the path, and in pyenv versions that are not selected."""
    executable = shutil.which("python3.10")
    if executable is None:
        return
    yield Path(executable)
    root = Path(os.environ.get("PYENV_ROOT") or Path(executable).parent.parent)
    if Path(executable).parent.name == "shims":
        yield from sorted(root.glob("versions/3.10.*/bin/python3.10"), reverse=True)


def _version(python: Path) -> tuple[int, int] | None:
    """None if it does not run, or cannot make environments (Debian without python3-venv)."""
    ask = "import ensurepip, sys, venv; sys.stdout.write('%d %d' % sys.version_info[:2])"
    try:
        done = subprocess.run([str(python), "-I", "-c", ask], capture_output=True, text=True, timeout=_SECONDS)
        major, minor = map(int, done.stdout.split())
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return major, minor
