"""The API reference: a page per public name, from its docstring."""

from __future__ import annotations

import inspect
from pathlib import Path

import nirbridge

GROUPS = (
    ("Stages", "A function per stage of the compiler.", lambda x: not inspect.isclass(x)),
    ("Values", "What the functions take and return; all are frozen.", inspect.isclass),
)


def public_names() -> dict[str, object]:
    """Public names of ``nirbridge`` and what they are, modules and the version apart."""
    names = {name: getattr(nirbridge, name) for name in nirbridge.__all__ if name not in ("__version__", "errors")}
    return dict(sorted(names.items()))


def write(folder: Path) -> None:
    """``folder/index.md``, a page per public name, and one of errors."""
    folder.mkdir(parents=True)
    names = public_names()
    for name, item in names.items():
        (folder / f"{name}.md").write_text(_page(name, _directive(name, item)), encoding="utf-8")
    (folder / "errors.md").write_text(
        _page("errors", ".. automodule:: nirbridge.errors\n   :members:\n"), encoding="utf-8"
    )
    lines = ["# Python", "", "`import nirbridge as nb`; modules are imported when a name is first used.", ""]
    for title, text, is_member in GROUPS:
        lines += [f"## {title}", "", text, "", "| name | |", "|---|---|"]
        lines += [f"| [{n}]({n}.md) | {_first_line(x)} |" for n, x in names.items() if is_member(x)]
        lines += [""]
    listed = "\n".join([*names, "errors"])
    lines += [
        "Errors are listed on [a page of their own](errors.md).",
        "",
        f"```{{toctree}}\n:hidden:\n\n{listed}\n```",
    ]
    (folder / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _directive(name: str, item: object) -> str:
    if inspect.isclass(item):
        return f".. autoclass:: nirbridge.{name}\n   :members:\n"
    if inspect.ismodule(item):  # a room that is a function, too
        call = type(item).__call__
        text = inspect.getdoc(call) or ""
        body = "\n".join(f"   {line}".rstrip() for line in text.replace("Example:\n", "Example::\n\n").splitlines())
        return f".. py:function:: nirbridge.{name}() -> {inspect.signature(call).return_annotation}\n\n{body}\n"
    return f".. autofunction:: nirbridge.{name}\n"


def _page(name: str, directive: str) -> str:
    return f"# {name}\n\n```{{eval-rst}}\n{directive}```\n"


def _first_line(item: object) -> str:
    documented = type(item).__call__ if inspect.ismodule(item) else item
    return (
        (inspect.getdoc(documented) or "")
        .partition("\n\n")[0]
        .replace("\n", " ")
        .replace("``", "`")
        .replace("|", "\\|")
    )
