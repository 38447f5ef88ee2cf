"""``make tools``, and tests whose tools are absent; no test here installs anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tools
from tests.tools import needs

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = re.compile(r"\b(apt|apt-get|sudo|dpkg|brew|dnf|yum|apk|tests\.tools)\b")


def fake(folder: Path, name: str, script: str = "exit 0") -> None:
    """A program in a folder of programs."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def dry_run(target: str) -> str:
    """The commands of a target on a fresh machine."""
    command = [needs("make"), "--dry-run", "--always-make", target]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def main(monkeypatch: pytest.MonkeyPatch, programs: Path) -> int:
    """``make tools`` where these are all the programs of the system."""
    monkeypatch.setenv("PATH", str(programs))
    return tools.main()


def test_nothing_is_run_where_all_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for tool in tools.TOOLS.values():
        fake(tmp_path, tool.commands[-1])
    fake(tmp_path, "apt-get", f"echo called > {tmp_path / 'called'}")
    assert main(monkeypatch, tmp_path) == 0
    assert capsys.readouterr().out == f"tools: all installed ({', '.join(tools.TOOLS)})\n"
    assert not (tmp_path / "called").exists()


def test_root_installs_what_is_absent_with_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    chromium = tmp_path / "chromium"
    rest = [tool for name, tool in tools.TOOLS.items() if name != "browser"]
    for tool in rest:
        fake(tmp_path, tool.commands[0])
    copy = f"[ $1 = update ] || {{ echo '#!/bin/sh' > {chromium}; /bin/chmod 755 {chromium}; }}"
    fake(tmp_path, "apt-get", f'echo "$DEBIAN_FRONTEND $@" >> {tmp_path / "called"}; {copy}')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert main(monkeypatch, tmp_path) == 0
    assert (tmp_path / "called").read_text().splitlines() == [
        "noninteractive update",
        "noninteractive install --yes --no-install-recommends chromium",
    ]
    assert capfd.readouterr().out.endswith("apt-get install --yes --no-install-recommends chromium\n")


def test_an_optional_tool_that_is_not_to_be_had_keeps_no_other_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Packages that apt lacks make it refuse the whole command, so an optional one has a command of its own."""
    for tool in tools.TOOLS.values():
        if not tool.optional and tool.commands[0] != "zsh":
            fake(tmp_path, tool.commands[0])
    zsh = tmp_path / "zsh"
    copy = f"case $* in *mlir*) exit 100;; *zsh*) echo > {zsh}; /bin/chmod 755 {zsh};; esac"
    fake(tmp_path, "apt-get", f'echo "$@" >> {tmp_path / "called"}; {copy}')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert main(monkeypatch, tmp_path) == 0
    installed = [line.split()[-1] for line in (tmp_path / "called").read_text().splitlines()]
    assert installed == ["update", "zsh", "mlir-22-tools"]
    assert capfd.readouterr().out.endswith("--no-install-recommends mlir-22-tools\n")


@pytest.mark.parametrize("sudo", [None, "exit 1"])
def test_the_command_is_printed_where_apt_may_not_run(
    sudo: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(tmp_path, "apt-get", f"echo called > {tmp_path / 'called'}")
    if sudo is not None:
        fake(tmp_path, "sudo", sudo)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(monkeypatch, tmp_path) == 1
    packages = " ".join(tool.package for tool in tools.TOOLS.values())
    command = f"sudo apt-get update && sudo apt-get install --yes --no-install-recommends {packages}\n"
    assert capsys.readouterr().out.endswith(f"tools: not installed here; on Debian and Ubuntu: {command}")
    assert not (tmp_path / "called").exists()


def test_sudo_that_asks_no_password_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fake(tmp_path, "apt-get")
    fake(tmp_path, "sudo", f'echo "$@" >> {tmp_path / "called"}')
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(monkeypatch, tmp_path) == 1  # this apt-get installs nothing
    said = (tmp_path / "called").read_text().splitlines()
    assert said[:2] == ["--non-interactive true", "--non-interactive apt-get update"]
    assert said[2].startswith("--non-interactive apt-get install --yes")
    assert "tools: not installed here" in capfd.readouterr().out


def test_a_machine_without_apt_gets_the_command_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch, tmp_path) == 1
    assert "on Debian and Ubuntu: sudo apt-get update && " in capsys.readouterr().out


def ended(name: str) -> tuple[type[BaseException], str]:
    """How a test without its tool ends: a skip must not end this test, too."""
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as raised:
        tools.needs(name)
    return raised.type, str(raised.value)


@pytest.mark.parametrize("name", tools.TOOLS)
def test_a_test_without_its_tool_is_skipped_by_name_or_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NIRBRIDGE_TOOLS", raising=False)
    text = f"the system's {name} ({tools.TOOLS[name].package}) is not installed; run: make tools"
    assert ended(name) == (pytest.skip.Exception, text)
    monkeypatch.setenv("NIRBRIDGE_TOOLS", "required")
    if tools.TOOLS[name].optional:
        assert ended(name) == (pytest.skip.Exception, text)
    else:
        assert ended(name) == (pytest.fail.Exception, f"{text} (NIRBRIDGE_TOOLS=required)")
    fake(tmp_path, tools.TOOLS[name].commands[0])
    assert tools.needs(name) == str(tmp_path / tools.TOOLS[name].commands[0])


def test_every_tool_is_used_by_some_test() -> None:
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("*.py")]
    users = [text for text in texts if re.search(r"^from tests\.tools import .*\bneeds\b", text, re.MULTILINE)]
    used = {name for text in users for name in re.findall(r'\bneeds\("([a-z-]+)"\)', text)}
    assert used == set(tools.TOOLS)


def test_the_tools_module_takes_the_standard_library_alone() -> None:
    """``make tools`` comes first: nothing is installed yet."""
    code = "import sys; sys.path.insert(0, '.'); import tests.tools; print('pytest' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("target", ["demo", "test", "check", "test-slow"])
def test_other_targets_never_touch_the_system(target: str) -> None:
    out = dry_run(target)
    assert "pip" in out
    assert SYSTEM.findall(out) == []


def test_tools_is_the_target_that_does() -> None:
    out = dry_run("tools")
    assert SYSTEM.findall(out) == ["tests.tools"]
    assert "pip" not in out


def test_a_submission_runs_with_tools_required_and_first() -> None:
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(("make", "export"))] == [
        "export NIRBRIDGE_TOOLS=required",
        "make tools",
        "make demo",
        "make check",
        "make test",
        "make test-stack",
        "make test-compilers",
    ]
