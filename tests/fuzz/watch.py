"""Rules for reading a file: no foreign exceptions, hangs, excess memory, access to other files, or writes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nirbridge.errors import Bug, NirbridgeError

SECONDS = 5.0
"""CPU seconds that one input may take."""
BYTES = 2**30
"""Memory that one input may take beyond the process's own."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
_RUNS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "pickle.find_class")
_ALL_EVENTS = 0x2 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400  # modify, open, moved, create, delete, self deleted
_EVENT = struct.Struct("iIII")


class TooLong(BaseException):
    """Not an Exception, so that no reader takes it for damage of a file."""


@dataclass(slots=True)
class Outcome:
    """``failure`` is empty where the reader did what it should; ``accepted``: it took the input."""

    accepted: bool
    failure: str = ""
    first: bool = False
    seconds: float = 0.0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Watch:
    """One folder with the file that is read and decoys beside it; ``run`` is to be called for one input at a time."""

    folder: Path
    first: bool = False
    seconds: float = SECONDS
    _active: bool = False
    _writes_allowed: bool = False
    _breaches: list[str] = field(default_factory=list)
    _notify: int = -1
    _libraries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        paths = (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), Path(__file__).parents[2] / "nirbridge")
        system = ("/proc/self", "/sys", "/usr/lib", "/lib", "/usr/share/zoneinfo")
        self._libraries = (*{os.path.realpath(p) for p in paths}, *system)
        self._notify = _notified(self.folder)
        self._notice_arrays()
        sys.addaudithook(self._audit)
        signal.signal(signal.SIGPROF, _too_long)

    def limit_memory(self) -> None:
        """From here on the process gets no more than ``BYTES`` beyond what it has; call after a first good input."""
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, resource.RLIM_INFINITY))

    def _notice_arrays(self) -> None:
        """Notes every array that numpy has no memory for, also where a reader takes the exception for damage."""
        from numpy._core import _exceptions

        kind: Any = _exceptions._ArrayMemoryError
        usual = kind.__init__

        def noticed(error: Any, shape: Any, dtype: Any) -> None:
            self._breaches.append(f"over {BYTES:,} bytes: an array of shape {shape} and type {dtype}")
            usual(error, shape, dtype)

        kind.__init__ = noticed

    def counting(self, places: tuple[str, ...]) -> None:
        """Notes when one of these functions (``module:name``) is called: the input is past its first check."""
        import importlib

        for place in places:
            module, _, name = place.partition(":")
            owner = importlib.import_module(module)
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.first = True
            return function(*args, **options)

        return counted

    def run(self, read: Callable[[], Any], *, writes_allowed: bool = False) -> Outcome:
        """What becomes of one input."""
        self._breaches, self.first, self._writes_allowed = [], False, writes_allowed
        self._drain()
        before, start = _peak(), _cpu_seconds()
        try:
            with self._guarded():
                read()
            found = Outcome(accepted=True)
        except NirbridgeError as error:
            found = Outcome(False, _bad_refusal(error))
        except (TooLong, Exception, SystemExit) as error:
            found = Outcome(False, _said(error))
        if not writes_allowed:
            self._breaches += [f"the library touched {name}" for name in self._drain()]
        else:
            self._breaches += [f"{name} was left" for name in os.listdir(self.folder) if name.endswith(".part")]
        found.failure = found.failure or "; ".join(sorted(set(self._breaches))[:3])
        found.first, found.seconds, found.bytes = self.first, _cpu_seconds() - start, max(0, _peak() - before)
        return found

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        self._active = True
        try:
            yield
        finally:
            self._active = False
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._active:
            return
        if event in _RUNS:
            self._breaches.append(f"{event} {args[:1]}")
        elif event in _CHANGES or event.startswith("shutil."):
            if not self._writes_allowed:
                self._breaches.append(f"{event} {args[:2]}")
        elif event == "open":
            self._opened(*args)

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int):
            return
        where = os.path.realpath(os.fsdecode(path))
        here = os.path.realpath(self.folder)  # itself too: a file that has no name yet is opened in its folder
        own = here in (where, os.path.dirname(where)) and "decoy" not in where
        writes = bool((flags or 0) & _WRITES) if isinstance(flags, int) else any(x in (mode or "") for x in "wax+")
        if writes and not (own and self._writes_allowed):
            self._breaches.append(f"{where} was opened to be written")
        elif not own and not self._writes_allowed and not where.startswith(self._libraries):
            self._breaches.append(f"the foreign file {where} was opened")

    def _drain(self) -> list[str]:
        """Names of files whose opening or change the kernel saw; the one that is read is no news."""
        try:
            data = os.read(self._notify, 2**16)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0").decode("utf-8", "replace")
            at += _EVENT.size + length
            if name.startswith("decoy") or mask & ~0x40000020:
                found.append(name)
        return found


def _notified(folder: Path) -> int:
    """A descriptor that tells of everything opened or changed in the folder, by the HDF5 library too."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0 or libc.inotify_add_watch(descriptor, os.fsencode(folder), _ALL_EVENTS) < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    return descriptor


def _too_long(number: int, frame: Any) -> None:
    raise TooLong("over the limit of CPU time")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _said(error: BaseException) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    inner = [f for f in frames if "nirbridge" in f.filename and "tests" not in f.filename] or frames
    where = f"{Path(inner[-1].filename).name}:{inner[-1].lineno}" if inner else "?"
    return f"{type(error).__name__} at {where}: {str(error)[:160]}"


def _bad_refusal(error: NirbridgeError) -> str:
    """Why an error of ours is no good answer; empty where it is one."""
    if isinstance(error, Bug):
        return f"Bug: {str(error)[:160]}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return f"over {BYTES:,} bytes: {str(cause)[:160]}"
        cause = cause.__context__
    text = str(error)
    if not error.problems or not all(p.subject and p.found for p in error.problems):
        return "an error without a subject or finding"
    if len(text) > 100_000:
        return f"a message of {len(text):,} characters"
    if not all(str(p).isprintable() for p in error.problems):
        return f"a message with control characters: {text[:160]!r}"
    return ""
