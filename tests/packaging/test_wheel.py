"""The wheel, installed and run outside the checkout on each supported Python."""

from __future__ import annotations

import runpy
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from nirbridge._version import __version__
from tests.packaging import wheel as wheels

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pythons = [python for python in map(wheels.interpreter, wheels.VERSIONS) if python is not None]
    return wheels.build(pythons[0], tmp_path_factory.mktemp("wheel"))


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    assert wheels.files_of_wheel(wheel) == wheels.files_of_package()


def test_the_page_of_the_wheel_is_the_readme_without_relative_links(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        page = message_from_bytes(archive.read(f"nirbridge-{__version__}.dist-info/METADATA"))
    text = page.get_payload()
    assert page["Description-Content-Type"] == "text/markdown"
    assert text.splitlines()[0] == (wheels.ROOT / "README.md").read_text(encoding="utf-8").splitlines()[0]
    assert runpy.run_path(str(wheels.ROOT / "setup.py"))["LINK"].search(text) is None


@pytest.mark.parametrize("version", wheels.VERSIONS)
def test_the_wheel_runs_outside_the_checkout(version: str, wheel: Path, tmp_path: Path) -> None:
    python = wheels.interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    commands = wheels.install(python, wheel, tmp_path / "environment")
    imported, usage, summary, chips, mapped, checked, quantized, emitted = wheels.use(commands, tmp_path / "empty")
    number, file = imported.splitlines()
    assert number == __version__
    assert Path(file).is_relative_to(tmp_path / "environment")
    assert usage.startswith("Usage: nirbridge ")
    assert "loihi2" in summary
    assert "loihi2" in chips
    assert "cores    1 of 128 used" in mapped
    assert "legal" in checked
    assert "cannot overflow" in quantized
    assert (tmp_path / "empty/model.q.npz").is_file()
    assert "program" in emitted
    assert (tmp_path / "empty/program/run.py").is_file()
