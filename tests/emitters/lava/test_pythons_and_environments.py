"""Selection of Pythons and environments for Lava, and each refusal in full."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nirbridge._types import no_progress
from nirbridge.emitters.lava.runtime import environment
from nirbridge.errors import UsageError


def test_a_python_says_its_version_or_does_not_run(tmp_path: Path) -> None:
    assert environment._version(Path(sys.executable)) == sys.version_info[:2]
    assert environment.python_version(Path(sys.executable)) == sys.version_info[:2]
    with pytest.raises(UsageError, match=r"^Python '.*/none': does not run; name another one with --python$"):
        environment.python_version(tmp_path / "none")


@pytest.mark.parametrize(("version", "is_right"), [((3, 9), False), ((3, 10), True), ((3, 13), True), ((3, 14), False)])
def test_versions_that_lava_runs_on(version: Any, is_right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_version", lambda path: version)
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    monkeypatch.setattr(environment.sys, "version_info", (*version, 0))
    if is_right:
        assert environment.python_version(Path("p")) == version
        assert environment.base_python() == Path(sys.executable)
        return
    limit = "Lava runs on 3.10 to 3.13; name"
    with pytest.raises(UsageError, match=rf"^Python 'p': is 3\.{version[1]}, {limit} another one$"):
        environment.python_version(Path("p"))
    with pytest.raises(
        UsageError, match=rf"^Python for Lava: none found, {limit} one: nirbridge doctor lava --install --python"
    ):
        environment.base_python()


def test_another_lava_than_programs_are_written_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NIRBRIDGE_LAVA_PYTHON", sys.executable)
    for version, ready in (("0.10.0", True), ("0.9.0", False)):
        monkeypatch.setattr(environment, "_probe", lambda python, v=version: ({"lava-nc": v}, ""))
        found = environment.environment_status()
        assert (found.ready, found.source, found.python) == (ready, "NIRBRIDGE_LAVA_PYTHON", Path(sys.executable))
        assert found.trouble == ("" if ready else "lava-nc is 0.9.0, programs are written for 0.10.0")
        assert found.hint == ("" if ready else "mend or unset NIRBRIDGE_LAVA_PYTHON")


def test_the_environment_that_was_made_last_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NIRBRIDGE_CACHE", str(tmp_path))
    monkeypatch.delenv("NIRBRIDGE_LAVA_PYTHON", raising=False)
    pins = hashlib.sha256(environment.REQUIREMENTS.read_bytes()).hexdigest()[:8]
    assert environment._name((3, 11)) == f"lava-0.10.0-py311-{pins}"
    for minor, when, is_made in ((10, 5, True), (11, 7, True), (12, 9, False)):
        folder = tmp_path / "lava" / environment._name((3, minor))
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(sys.executable)
        if is_made:
            (folder / environment.READY).write_text("{}")
            os.utime(folder / environment.READY, (when, when))
    assert environment.find_python().parts[-3] == f"lava-0.10.0-py311-{pins}"


def test_calls_that_take_too_long_and_what_they_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", "x")
    code = "import os, sys; sys.exit(any(k.startswith('PYTHON') for k in os.environ))"
    environment._call([sys.executable, "-c", code], "a try")

    def late(*args: Any, **options: Any) -> Any:
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(environment.subprocess, "run", late)
    seconds = environment._INSTALL_SECONDS
    with pytest.raises(UsageError, match=f"^a try: did not end, {seconds} s are given; try again$"):
        environment._call(["x"], "a try")
    assert environment._probe(Path("x")) == ({}, "'x' cannot be run (TimeoutExpired)")
    assert environment._version(Path("x")) is None
    step = "try another Python: nirbridge doctor lava --install --python PATH"
    monkeypatch.setattr(environment, "_call", lambda *own: None)
    monkeypatch.setattr(environment, "_install_packages", lambda *own: None)
    with pytest.raises(UsageError, match=rf"^Lava environment: '.*' cannot be run \(TimeoutExpired\); {step}$"):
        environment._make(tmp_path / "made", Path("x"), no_progress)
