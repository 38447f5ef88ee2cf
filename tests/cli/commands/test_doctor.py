"""The table of optional tools."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from nirbridge import pipeline
from nirbridge.cli.main import run
from nirbridge.pipeline import doctor

NAMED = {"gcc", "clang", "xdsl", "jax", "onnxruntime", "openvino", "sanafe", "lava", "scikit-learn", "spyx", "snnax"}
NAMED |= {"torch", "snntorch", "norse", "sinabs", "spikingjelly", "rockpool", "iree-base-compiler", "qemu-system-arm"}


@pytest.fixture(autouse=True)
def _lava_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from nirbridge.emitters.lava.runtime.environment import LavaStatus

    for place in ("nirbridge.pipeline", "nirbridge.emitters.lava.runtime.environment"):
        monkeypatch.setattr(f"{place}.environment_status", lambda: LavaStatus(None, "cache"))
    monkeypatch.setenv("COLUMNS", "120")


def test_every_tool_is_told_with_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    tools = {tool["name"]: tool for tool in document["tools"]}
    assert set(tools) >= NAMED
    assert tools["torch"]["version"] == version("torch")
    assert document["python"] == ".".join(map(str, sys.version_info[:3]))
    assert tools["lava"]["version"] is None
    assert all(tool["hint"] and tool["purpose"] for tool in document["tools"])
    run(["doctor"])
    text = capsys.readouterr().out
    assert all(name in text for name in tools)
    assert tools["lava"]["hint"] in text
    assert tools["torch"]["hint"] not in text
    there = sum(tool["version"] is not None for tool in document["tools"])
    assert text.rstrip().endswith(f"{there} tools of {len(tools)} are there; all are optional")


def test_one_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "torch"]) == 0
    out = capsys.readouterr().out
    assert "PyTorch modules, in and out" in out
    assert "onnx" not in out
    assert run(["doctor", "lava", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ready"] is False
    assert run(["doctor", "torch", "--install"]) == 2
    assert "lava alone has an environment of nirbridge's; pip install" in capsys.readouterr().err


def test_lava_is_installed_from_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from nirbridge.emitters.lava.runtime.environment import LavaStatus

    asked = []

    def install(python: Path | None, *, again: bool, progress: object) -> LavaStatus:
        asked.append((python, again))
        return LavaStatus(Path("/python"), "cache")

    monkeypatch.setattr(pipeline, "install_environment", install)
    lines = ["doctor lava --install", "doctor --install lava --again", "lava install --python here"]
    assert [run(line.split()) for line in lines] == [0, 0, 0]
    assert asked == [(None, False), (None, True), (Path("here"), False)]
    assert capsys.readouterr().out.count("Lava works\n") == 3


def test_programs_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in (("gcc", "echo 'gcc (Debian 12.2.0-14) 12.2.0'"), ("clang", "exit 3"), ("mlir-opt", "sleep 9")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(doctor, "PROGRAM_S", 0.2)
    monkeypatch.setattr("shutil.which", lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None)
    states = {s.name: s for s in pipeline.tool_states()}
    assert states["gcc"].version == "12.2.0"
    assert states["clang"].version == "unknown"
    assert states["mlir-opt"].version == "unknown"
    assert states["qemu-riscv64"].version is None


def test_drivers_of_vulkan_are_told_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> tuple[str | None, str | None]:
        state = next(s for s in pipeline.tool_states() if s.name == "vulkan")
        return state.version, state.path

    monkeypatch.setattr(doctor, "TOOLS", ())
    monkeypatch.setattr(doctor, "VULKAN_FOLDERS", (str(tmp_path), str(tmp_path / "none")))
    for name in doctor.VULKAN_FILES:
        monkeypatch.delenv(name, raising=False)
    assert found() == (None, None)
    (tmp_path / "a.json").write_text("{}")
    assert found() == ("unknown", str(tmp_path / "a.json"))
    (tmp_path / "lvp_icd.json").write_text('{"ICD": {"api_version": "1.1.230"}}')
    assert found() == ("1.1.230", str(tmp_path / "lvp_icd.json"))
    monkeypatch.setenv("VK_ICD_FILENAMES", str(tmp_path / "gone.json"))
    assert found() == (None, None)


def test_nothing_is_imported() -> None:
    code = (
        "import sys; from nirbridge.cli.main import run\n"
        "import nirbridge.emitters.lava.runtime.environment as e\n"
        "e.environment_status = lambda: e.LavaStatus(None, 'cache')\n"
        "run(['doctor', '--json']); sys.exit(bool({'torch', 'jax', 'onnx', 'numba'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_mark_changes_with_its_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("started"))
    monkeypatch.setattr("shutil.which", lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None)
    before = doctor.tool_marks()
    assert before["torch"] == version("torch")
    assert "gcc" not in before
    (tmp_path / "cc").write_text("one")
    found = doctor.tool_marks()
    assert found == before | {"gcc": found["gcc"]}
    (tmp_path / "cc").write_text("another")
    assert doctor.tool_marks()["gcc"] != found["gcc"]
