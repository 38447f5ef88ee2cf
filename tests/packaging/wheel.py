"""Builds the wheel, installs it outside the checkout on each supported Python, and runs it there.

``python -m tests.packaging.wheel`` (``make wheel``). Uses the standard library alone, since it runs before anything is
installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
"""Versions of Python that are supported: those on which the wheel is installed and run."""
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
LOCATION = "import nirbridge; print(nirbridge.__version__); print(nirbridge.__file__)"
FRONT_DOOR = "import nirbridge as nb; print(nb.map('model.nir', 'loihi2').summary())"


class Failed(Exception):
    """A command that failed, with the last lines of its output."""


def interpreter(version: str) -> Path | None:
    """The Python of a version: this one, one on the path, or one of pyenv; None where there is none."""
    own = "{}.{}".format(*sys.version_info)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    pyenv = sorted(versions.glob(f"{version}*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    for found in (sys.executable if own == version else None, on_path, *pyenv):
        if found is not None and _answers(Path(found), version):
            return Path(found)
    return None


def _answers(python: Path, version: str) -> bool:
    """True if it runs (a shim of pyenv may not) and can make environments."""
    code = "import sys, venv, ensurepip; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def run(*command: str | Path, cwd: Path) -> str:
    """Runs a command with none of this process's Python settings and returns its output.

    Raises:
        Failed: its exit code is not 0.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "VIRTUAL_ENV"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise Failed(f"{' '.join(words)}: exit code {done.returncode}\n{last}")
    return done.stdout


def build(python: Path, folder: Path) -> Path:
    """The wheel, built from a copy of the sources, so that the checkout stays as it is."""
    source, out = folder / "source", folder / "wheel"
    shutil.copytree(ROOT / "nirbridge", source / "nirbridge", ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, source / name)
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, source, cwd=folder)
    (wheel,) = out.glob("nirbridge-*.whl")
    return wheel


def files_of_package() -> set[str]:
    """All files of the package in the checkout, as a wheel names them."""
    files = (p for p in (ROOT / "nirbridge").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(ROOT).as_posix() for p in files}


def files_of_wheel(wheel: Path) -> set[str]:
    """All files of a wheel but its own records."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def install(python: Path, wheel: Path, folder: Path) -> Path:
    """The folder of commands of a fresh environment that holds the wheel and what it asks for."""
    run(python, "-m", "venv", folder, cwd=wheel.parent)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=wheel.parent)
    run(folder / "bin/python", "-m", "pip", "check", cwd=wheel.parent)
    return folder / "bin"


def use(commands: Path, empty: Path) -> list[str]:
    """Imports the package and runs the command from an empty folder; returns the outputs in the order of the calls.

    No file of the checkout is read: the wheel carries the example model.
    """
    empty.mkdir()
    command, model = commands / "nirbridge", empty / "model.nir"
    run(command, "doctor", "--examples", "examples", cwd=empty)
    shutil.copy(empty / "examples/models/digits_cnn.nir", model)
    calls = (
        (commands / "python", "-c", LOCATION),
        (command, "--help"),
        (commands / "python", "-c", FRONT_DOOR),
        (command, "chips"),
        (command, "map", model, "--chip", "loihi2", "-o", "model.map.json"),
        (command, "check", model, "--map", "model.map.json"),
        (command, "quantize", model, "--chip", "loihi2", "-o", "model.q.npz"),
        (command, "emit", model, "--to", "lava", "--chip", "loihi2", "-o", "program"),
    )
    return [run(*call, cwd=empty) for call in calls]


def main() -> int:
    """Checks the wheel on every Python that is found; 1 if none is."""
    found = {version: interpreter(version) for version in VERSIONS}
    pythons = {version: python for version, python in found.items() if python is not None}
    for version in sorted(set(found) - set(pythons)):
        print(f"Python {version}: not found, not checked")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(next(iter(pythons.values())), folder) if pythons else None
        for version, python in pythons.items():
            assert wheel is not None
            outputs = use(install(python, wheel, folder / version), folder / f"empty-{version}")
            cores = next(line for line in outputs[4].splitlines() if line.startswith("cores"))
            print(f"Python {version}: {wheel.name} is installed and maps the example ({' '.join(cores.split())})")
    return 0 if pythons else 1


if __name__ == "__main__":
    sys.exit(main())
