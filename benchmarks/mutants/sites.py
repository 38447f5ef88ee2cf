"""All mutants of a file: one small change of its syntax tree each, written back into the text in place.

Left out, since no test should depend on them: docstrings and the text of messages (strings and f-strings), annotations,
decorators, ``TYPE_CHECKING`` blocks, ``__repr__`` and ``__str__``, and progress reports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div, ast.Mult),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitXor: (ast.BitOr,),
}
CALLS = {
    pair[i]: pair[1 - i]
    for pair in (
        ("any", "all"),
        ("min", "max"),
        ("minimum", "maximum"),
        ("argmin", "argmax"),
        ("floor", "ceil"),
        ("ones", "zeros"),
        ("rstrip", "lstrip"),
        ("startswith", "endswith"),
        ("sorted", "list"),
        ("abs", "+"),
    )
    for i in (0, 1)
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """``text`` in place of the bytes ``start`` to ``stop`` of ``path``, which begin on ``line``; ``kind`` of change."""

    path: str
    line: int
    start: int
    stop: int
    text: str
    kind: str

    def apply(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.text.encode() + source[self.stop :]


def mutants(root: Path, path: str) -> list[list[Mutant]]:
    """All mutants of a file, those of one place together. Few of them are not Python: see ``is_python``."""
    source = (root / path).read_bytes()
    starts = [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]
    places: list[list[Mutant]] = []
    for node in _mutable(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        made = [Mutant(path, node.lineno, start, stop, text, kind) for kind, text in _changes(node)]
        if made:
            places.append(made)
    return places


def is_python(source: bytes) -> bool:
    """False where a change left something that does not parse."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


# -- which nodes -----------------------------------------------------------------------------------------------------


def _mutable(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Every node that may be changed, in the order of the text."""
    for child in _children(node):
        if isinstance(child, ast.expr | ast.stmt):
            yield child
        yield from _mutable(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    skipped = _skipped(node)
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield child


def _skipped(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.arg | ast.AnnAssign):
        return ("annotation",)
    if isinstance(node, ast.ClassDef):
        return ("decorator_list", "bases", "keywords")
    return ("decorator_list", "returns") if isinstance(node, Function) else ()


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, Function):
        return node.name in ("__repr__", "__str__")
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):
        called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        return isinstance(node.value, ast.Constant) or called.split(".")[-1] == "progress"
    return _is_type(node)


def _is_type(node: ast.AST) -> bool:
    """``A | B`` of classes, as in ``isinstance(x, A | B)`` and in names of types."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
        return False
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)]
    last = [n.attr if isinstance(n, ast.Attribute) else n.id for n in names]
    builtins = {"int", "float", "str", "bool", "list", "tuple", "dict", "set", "bytes", "object", "np", "nir", "ast"}
    return all((word[:1].isupper() and not word.isupper()) or word in builtins for word in last)


# -- which changes ---------------------------------------------------------------------------------------------------


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:
    """(kind, new text) of every change of this node itself."""
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    elif isinstance(node, ast.Compare | ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.IfExp):
        yield from _of_operation(node)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield from _of_slice(node)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        yield from _of_comprehension(node)


def _of_constant(node: ast.Constant) -> Iterator[tuple[str, str]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", repr(not value)
    elif isinstance(value, int | float):
        yield "constant", repr(value + 1)
        yield "constant", f"({value - 1!r})" if value < 1 else repr(value - 1)


def _of_operation(node: ast.expr) -> Iterator[tuple[str, str]]:
    text = ast.unparse
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for other in COMPARISONS[type(op)]:
                ops = [*node.ops[:i], other(), *node.ops[i + 1 :]]
                yield "comparison", text(ast.Compare(node.left, ops, node.comparators))
    elif isinstance(node, ast.BinOp):
        for other in () if _is_text(node) else ARITHMETIC.get(type(node.op), ()):
            yield "arithmetic", f"({text(ast.BinOp(node.left, other(), node.right))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield "sign or not dropped", f"({text(node.operand)})"
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and, or", f"({text(ast.BoolOp(other_op, node.values))})"
        for i in range(len(node.values)):
            rest = [*node.values[:i], *node.values[i + 1 :]]
            yield "condition dropped", f"({text(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))})"
    elif isinstance(node, ast.IfExp):
        yield "one branch", f"({text(node.body)})"
        yield "one branch", f"({text(node.orelse)})"


def _is_text(node: ast.BinOp) -> bool:
    """Strings put together."""
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in (node.left, node.right)
    )


def _of_call(node: ast.Call) -> Iterator[tuple[str, str]]:
    own = node.func
    name = own.attr if isinstance(own, ast.Attribute) else own.id if isinstance(own, ast.Name) else ""
    other = CALLS.get(name)
    arguments = ", ".join(ast.unparse(a) for a in (*node.args, *node.keywords))
    if other == "+":
        yield "call", f"({arguments})"
    elif other and name != "+":
        head = f"{ast.unparse(own.value)}." if isinstance(own, ast.Attribute) else ""
        kept = ", ".join(ast.unparse(a) for a in (*node.args, *(node.keywords if other != "list" else ())))
        if name != "list":
            yield "call", f"{head}{other}({kept})"


def _of_slice(node: ast.Subscript) -> Iterator[tuple[str, str]]:
    part = node.slice
    assert isinstance(part, ast.Slice), "asked for slices only"
    for bound in (part.lower, part.upper):
        if bound is None or isinstance(bound, ast.Constant):
            continue  # constants are changed as such
        moved = ast.BinOp(bound, ast.Add(), ast.Constant(1))
        new = ast.Slice(moved if bound is part.lower else part.lower, moved if bound is part.upper else part.upper)
        new.step = part.step
        yield "slice", ast.unparse(ast.Subscript(node.value, new, node.ctx))


def _of_comprehension(node: ast.expr) -> Iterator[tuple[str, str]]:
    generators = node.generators  # type: ignore[attr-defined]
    for generator in generators:
        for condition in list(generator.ifs):
            at = generator.ifs.index(condition)
            generator.ifs.remove(condition)
            yield "filter dropped", ast.unparse(node)
            generator.ifs.insert(at, condition)


def _is_removable(node: ast.stmt) -> bool:
    """Without it the names that follow are still there."""
    if isinstance(node, ast.Assign):
        return not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    return isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete)


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, str]]:
    if _is_removable(node):
        yield "statement removed", "pass"
    if isinstance(node, ast.AugAssign):
        for other in ARITHMETIC.get(type(node.op), ()):
            yield "arithmetic", ast.unparse(ast.AugAssign(node.target, other(), node.value))
    elif isinstance(node, ast.Return) and ast.unparse(node) not in ("return", "return None"):
        assert node.value is not None, "it returns something"
        is_bool = isinstance(node.value, ast.Compare | ast.BoolOp) or _is_not(node.value)
        yield "returned value", f"return not ({ast.unparse(node.value)})" if is_bool else "return None"
    elif isinstance(node, ast.Continue):
        yield "continue, break", "break"
    elif isinstance(node, ast.Break):
        yield "continue, break", "continue"


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
