"""pyproject.toml, constraints.txt and CITATION.cff agree with each other and with the package."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from nirbridge._version import __version__
from nirbridge.chips import read_chip
from nirbridge.errors import FileError
from nirbridge.pipeline import write_examples
from nirbridge.sweeps.plan import make_plan
from nirbridge.sweeps.spec import load_spec

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = {
    extra: [Requirement(line) for line in lines] for extra, lines in PROJECT["project"]["optional-dependencies"].items()
}
CORE = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
REGISTRIES = ("pypi", "pythonhosted", "anaconda", "conda.io", "npmjs", "debian")
# Keys of the Citation File Format 1.2.0, and those that it requires.
CFF_KEYS = {
    "abstract",
    "authors",
    "cff-version",
    "commit",
    "contact",
    "date-released",
    "doi",
    "identifiers",
    "keywords",
}
CFF_KEYS |= {
    "license",
    "license-url",
    "message",
    "preferred-citation",
    "references",
    "repository",
    "repository-artifact",
}
CFF_KEYS |= {"repository-code", "title", "type", "url", "version"}
CFF_REQUIRED = {"authors", "cff-version", "message", "title"}


def requirements(extra: str) -> Iterator[Requirement]:
    """What an extra asks for, with what the extras that it names ask for."""
    for requirement in EXTRAS[extra]:
        if requirement.name == "nirbridge":
            for other in sorted(requirement.extras):
                yield from requirements(other)
        else:
            yield requirement


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): Version(version) for name, version in pairs}


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_ranges_without_pins_that_hold_the_tested_versions(extra: str) -> None:
    for requirement in requirements(extra) if extra else CORE:
        operators = {one.operator for one in requirement.specifier}
        assert operators & {">="}, f"{requirement}: no lower bound"
        assert not operators & {"==", "===", "~="}, f"{requirement}: a pin, which belongs into constraints.txt"
        tested = pins().get(requirement.name)
        assert tested is None or tested in requirement.specifier, f"{requirement}: tested with {tested}"


def test_torch_from_the_oldest_tested_version_in_every_extra() -> None:
    found = {str(r.specifier) for extra in EXTRAS for r in requirements(extra) if r.name == "torch"}
    assert found == {"<3,>=2.6"}
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert f"torch 2.6.0 and {pins()['torch']}" in " ".join(page.split())


def test_numba_up_to_the_newest_tested_version() -> None:
    (numba,) = (one for one in CORE if one.name == "numba")
    tested = pins()["numba"]
    (above,) = (one.version for one in numba.specifier if one.operator == "<")
    assert Version(above).release[:2] == (tested.major, tested.minor + 1)


def test_all_is_every_extra_that_needs_no_hardware_nor_develops() -> None:
    others = set(EXTRAS) - {"all", "jax", "iree", "fpga", "cupy", "sanafe", "fuzz", "test", "docs", "dev"}
    others -= {"openvino", "tvm", "triton", "tinygrad", "sycl"}
    wanted = {str(r) for extra in others for r in requirements(extra)}
    assert {str(r) for r in requirements("all")} == wanted
    assert {"torch", "snntorch", "norse", "matplotlib", "pandas", "ipykernel"} <= {r.name for r in requirements("all")}


def test_page_of_installation_names_every_extra() -> None:
    text = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    rows = "".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([a-z]+)`", rows)) == set(EXTRAS)


def test_extras_that_messages_and_pages_name_exist() -> None:
    files = [*(ROOT / "nirbridge").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    named = re.compile(r"nirbridge\[([a-z,]+)\]|(?:the )?extra (?:``|`|'|\")([a-z]+)(?:``|`|'|\")")
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    found = {
        name: [x for pair in named.findall(text) for one in pair for x in one.split(",") if x]
        for name, text in texts.items()
    }
    assert {"torch", "plot"} <= {extra for extras in found.values() for extra in extras}
    assert {name: extras for name, extras in found.items() if set(extras) - set(EXTRAS)} == {}


def test_classifiers_are_the_tested_versions_of_python() -> None:
    from tests.packaging.wheel import VERSIONS

    prefix = "Programming Language :: Python :: 3."
    found = [line.rsplit(" ", 1)[1] for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)]
    assert tuple(found) == VERSIONS
    assert PROJECT["project"]["requires-python"] == f">={VERSIONS[0]}"


def test_addresses_are_of_no_registry() -> None:
    urls = PROJECT["project"]["urls"]
    assert urls
    for url in urls.values():
        assert url.startswith("https://")
        assert not any(name in url for name in REGISTRIES)


SETUP = runpy.run_path(str(ROOT / "setup.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_of_the_page_of_the_package_are_those_of_the_readme_at_the_release() -> None:
    base = "https://code.example/someone/nirbridge"
    page = SETUP["package_page"](README, f"{base}/", "1.2.3")
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]+)\)", page)
    ours = [(picture, url.removeprefix(base)) for picture, url in links if url.startswith(base)]
    assert all(url.startswith(("https://", "#")) for _, url in links)
    assert {bool(picture): url.split("/")[1:3] for picture, url in ours} == {
        True: ["raw", "v1.2.3"],
        False: ["blob", "v1.2.3"],
    }
    paths = [url.split("/v1.2.3/")[1].partition("#")[0] for _, url in ours]
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_page_without_a_repository_has_no_dead_link() -> None:
    text = "![a picture](docs/a.png) [a page](docs/a.md#b), [NIR](https://a.example/NIR), [below](#below)"
    assert SETUP["package_page"](text, None, "1") == " a page, [NIR](https://a.example/NIR), [below](#below)"
    assert not SETUP["LINK"].search(SETUP["package_page"](README, None, "1"))


def test_every_file_of_the_package_is_in_the_wheel_by_some_pattern() -> None:
    package = ROOT / "nirbridge"
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["nirbridge"]
    files = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    data = [p.relative_to(package).as_posix() for p in files if p.suffix != ".py"]
    assert [name for name in data if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in data)] == []
    folders = {p.parent for p in files if p.suffix == ".py"}
    assert [str(f) for f in folders if not (f / "__init__.py").is_file()] == []


def test_the_package_carries_the_examples_of_the_checkout(tmp_path: Path) -> None:
    """They are links to ``examples/``, so that nothing is stored twice; commands of the pages find all they name."""
    links = [path for path in (ROOT / "nirbridge" / "examples").rglob("*") if not path.is_dir()]
    names = {path.relative_to(ROOT / "nirbridge" / "examples") for path in links}
    assert {path.resolve() for path in links} == {ROOT / "examples" / name for name in names}
    assert write_examples(tmp_path / "examples") == tuple(sorted(name.as_posix() for name in names))
    for name in names:
        assert (tmp_path / "examples" / name).read_bytes() == (ROOT / "examples" / name).read_bytes()
    for sweep in (tmp_path / "examples" / "sweeps").iterdir():
        assert make_plan(load_spec(sweep)).points
    assert read_chip(tmp_path / "examples" / "chips" / "my_chip.toml").name == "my_chip"
    with pytest.raises(FileError, match="folder 'examples': is there already"):
        write_examples(tmp_path / "examples")
    assert sum(path.stat().st_size for path in links) < 300_000


def citation() -> dict[str, Any]:
    """CITATION.cff: of YAML it uses keys, plain or quoted texts, and lists."""
    found: dict[str, Any] = {}
    key = ""
    for line in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines():
        item = re.fullmatch(r"  - (.+)", line)
        if item is not None:
            found[key].append(item[1])
            continue
        pair = re.fullmatch(r'([a-z-]+):(?: (?:"([^"\\]+)"|([\w.][^":#]*)))?', line)
        assert pair is not None, line
        key = pair[1]
        assert key not in found, key
        found[key] = pair[2] or pair[3] or []
    return found


def test_citation_is_whole_and_of_this_version() -> None:
    found, project = citation(), PROJECT["project"]
    assert CFF_REQUIRED <= set(found) <= CFF_KEYS
    assert found["cff-version"] == "1.2.0"
    assert (found["title"], found["version"]) == (project["name"], __version__)
    assert found["abstract"] == project["description"]
    assert found["license"] == project["license"]
    assert found["keywords"] == project["keywords"]
    assert found.get("repository-code") == project["urls"].get("Repository")
    assert found["authors"] == [f'name: "{author["name"]}"' for author in project["authors"]]
