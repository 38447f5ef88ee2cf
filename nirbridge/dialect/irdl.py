"""The definition of the dialect for other tools: ``mlir-opt --irdl-file`` parses and verifies modules with it."""

from __future__ import annotations

from typing import Any

from xdsl.irdl import OptionalDef, VarOperandDef, VarResultDef

from nirbridge.dialect.base import NAME
from nirbridge.dialect.module import OPERATIONS


def irdl_text() -> str:
    """The dialect in IRDL: every operation with its operands, results and required attributes."""
    body = "\n".join(_operation(kind) for kind in OPERATIONS)
    return f"module {{\n  irdl.dialect @{NAME} {{\n{body}\n  }}\n}}\n"


def _operation(kind: type[Any]) -> str:
    definition = kind.get_irdl_definition()
    lines, count = [], 0

    def fresh(operation: str) -> str:
        nonlocal count
        count += 1
        lines.append(f"      %{count} = {operation}")
        return f"%{count}"

    for word, values, variadic in (
        ("operands", definition.operands, VarOperandDef),
        ("results", definition.results, VarResultDef),
    ):
        each = [f"{name}: {'variadic ' if isinstance(v, variadic) else ''}{fresh('irdl.any')}" for name, v in values]
        if each:
            lines.append(f"      irdl.{word}({', '.join(each)})")
    required = [name for name, value in definition.attributes.items() if not isinstance(value, OptionalDef)]
    each = [f'"{name}" = {fresh("irdl.any")}' for name in required]
    if each:
        lines.append(f"      irdl.attributes {{ {', '.join(each)} }}")
    inner = "\n".join(lines)
    return f"    irdl.operation @{kind.name.removeprefix(NAME + '.')} {{\n{inner}\n    }}"
