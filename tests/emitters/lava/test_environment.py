"""The Lava environment: found, checked, created; with a substitute for pip, no partial environment remains."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nirbridge.cli import main as cli
from nirbridge.emitters.lava.runtime import environment
from nirbridge.errors import UsageError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NIRBRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NIRBRIDGE_LAVA_PYTHON", raising=False)
    return tmp_path / "cache"


def test_the_environment_that_the_tests_use_works(lava_python: Path) -> None:
    found = environment.environment_status()
    assert found.ready, found.trouble
    assert found.python == lava_python
    assert found.versions["lava-nc"] == "0.10.0"


def test_where_there_is_none_the_message_says_how_to_get_it(cache: Path) -> None:
    with pytest.raises(UsageError, match="run: nirbridge doctor lava --install"):
        environment.find_python()
    found = environment.environment_status()
    assert not found.ready
    assert found.hint == "run: nirbridge doctor lava --install"
    assert not cache.exists()


def test_the_variable_names_another_python(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIRBRIDGE_LAVA_PYTHON", sys.executable)
    assert environment.find_python() == Path(sys.executable)
    monkeypatch.setenv("NIRBRIDGE_LAVA_PYTHON", str(cache / "python"))
    with pytest.raises(UsageError, match="is no program"):
        environment.find_python()


def test_a_python_without_lava_is_said_to_be_one(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIRBRIDGE_LAVA_PYTHON", sys.executable)
    found = environment.environment_status()
    assert not found.ready
    assert "Lava cannot be imported" in found.trouble
    assert "NIRBRIDGE_LAVA_PYTHON" in found.hint


def test_a_failed_install_leaves_nothing_and_a_second_try_succeeds(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def call(command: list[str], subject: str) -> None:
        calls.append(command)
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.symlink_to(sys.executable)
        elif "--ignore-requires-python" in command and len(calls) == 3:
            raise UsageError.of(subject, "failed: no network")

    monkeypatch.setattr(environment, "_call", call)
    monkeypatch.setattr(environment, "_probe", lambda python: ({"lava-nc": "0.10.0"}, ""))
    with pytest.raises(UsageError, match="no network"):
        environment.install_environment(Path(sys.executable))
    assert [p.suffix for p in (cache / "lava").iterdir()] == [".lock"]
    found = environment.install_environment(Path(sys.executable))
    assert found.ready
    assert len(calls) == 6
    assert environment.install_environment(Path(sys.executable)) == found
    assert len(calls) == 6
    assert environment.find_python() == found.python
    environment.install_environment(Path(sys.executable), again=True)
    assert len(calls) == 9


def test_pins_are_whole_and_lava_is_the_one_that_programs_are_written_for() -> None:
    lines = [line for line in environment.REQUIREMENTS.read_text().splitlines() if line[0] != "#"]
    assert all("==" in line for line in lines)
    assert f"lava-nc=={environment.LAVA}" in lines


@pytest.mark.parametrize("found", [None, (3, 9), (3, 14)])
def test_a_python_that_lava_does_not_run_on(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_version", lambda path: found)
    with pytest.raises(UsageError, match="does not run|Lava runs on 3.10 to 3.13"):
        environment.python_version(Path("python"))


def test_python_3_10_is_taken_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a shim that refuses to run."""
    shim = tmp_path / "shims" / "python3.10"
    real = tmp_path / "versions" / "3.10.9" / "bin" / "python3.10"
    for path in (shim, real):
        path.parent.mkdir(parents=True)
        path.write_text("")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setattr(environment, "_version", lambda path: (3, 10) if path == real else None)
    assert environment.base_python() == real
    monkeypatch.setattr(environment, "_version", lambda path: None)
    assert environment.base_python() == Path(sys.executable)


def test_the_cache_folder_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NIRBRIDGE_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert environment.cache_folder() == tmp_path / "nirbridge"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert environment.cache_folder() == tmp_path / ".cache" / "nirbridge"


def test_status_on_the_command_line(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "lava"]) == 1
    assert "hint     run: nirbridge doctor lava --install" in capsys.readouterr().out
    assert cli.run(["doctor", "lava", "--again"]) == 2


def test_a_cache_that_can_not_be_written(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.write_text("a file")
    assert cli.run(["doctor", "lava", "--install", "--python", os.path.realpath(sys.executable)]) == 2
    assert "set NIRBRIDGE_CACHE" in capsys.readouterr().err


def test_a_command_that_fails_is_quoted_with_its_last_four_lines() -> None:
    code = "import sys; print('out'); print(*range(1, 7), sep='\\n', file=sys.stderr); sys.exit(3)"
    with pytest.raises(UsageError, match=r"^a try: failed: '3 \| 4 \| 5 \| 6'"):
        environment._call([sys.executable, "-c", code], "a try")
    with pytest.raises(UsageError, match="^a try: failed: 'only this'"):
        environment._call([sys.executable, "-c", "import sys; print('only this'); sys.exit(1)"], "a try")
    environment._call([sys.executable, "-c", "import sys; print('fine', file=sys.stderr)"], "a try")
    with pytest.raises(UsageError, match="^a try: cannot be started"):
        environment._call(["no such program of that name"], "a try")
