"""The mutants of a module: its text with one small mistake each, of the kinds that people make.

Comments, docstrings, annotations and imports are not changed: no test could or should notice that.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Edit = tuple[str, ast.AST]
"""The name of a mistake, and the node that replaces another one."""

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
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One mistake: where (`line` from 1), what was changed, and the module's text with it."""

    line: int
    what: str
    text: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of the module `source`, in the order of its lines, no two with the same text."""
    tree = ast.parse(source)
    texts = [ast.unparse(statement) for statement in tree.body]
    seen = {"\n".join(texts)}
    found = []
    for index, statement in enumerate(tree.body):
        part = ast.Module(body=[statement], type_ignores=[])  # the other statements keep their texts
        for node in list(_nodes(part)):
            for what, fresh in list(_edits(node)):
                _replace(part, node, fresh)
                changed = ast.unparse(ast.fix_missing_locations(part))
                _replace(part, fresh, node)
                text = "\n".join([*texts[:index], changed, *texts[index + 1 :]])
                if text not in seen:
                    seen.add(text)
                    found.append(Mutant(line=_line(node), what=f"{what}: {_shown(node)}", text=text))
    return sorted(found, key=lambda mutant: mutant.line)


def _line(node: ast.AST) -> int:
    """Where `node` begins; a `for` in brackets has no place of its own but its target's."""
    place = node.target if isinstance(node, ast.comprehension) else node
    return int(getattr(place, "lineno", 0))


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:89]}…"


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new)
                return
            if isinstance(value, list) and any(item is old for item in value):
                value[:] = [new if item is old else item for item in value]
                return


# What may be changed.


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of `tree` that a mistake may touch."""
    for node in _children(tree):
        yield node
        yield from _nodes(node)


def _children(node: ast.AST) -> Iterable[ast.AST]:
    skipped: list[ast.AST] = []
    match node:
        case ast.AnnAssign():
            skipped.append(node.annotation)
        case ast.arg() | ast.Import() | ast.ImportFrom():
            return ()
        case ast.FunctionDef():
            skipped += [*node.decorator_list, *([node.returns] if node.returns else [])]
        case ast.ClassDef():
            skipped += node.decorator_list
    return [
        child
        for child in ast.iter_child_nodes(node)
        if not any(child is one for one in skipped) and not _is_docstring(child)
    ]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# The mistakes.


def _edits(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.expr):
        yield from _edits_of_expression(node)
    elif isinstance(node, ast.stmt):
        yield from _edits_of_statement(node)
    elif isinstance(node, ast.comprehension):
        for index, test in enumerate(node.ifs):
            rest = [one for one in node.ifs if one is not test]
            tests = [*node.ifs[:index], _negated(test), *node.ifs[index + 1 :]]
            yield "condition negated", _changed(node, "ifs", tests)
            yield "condition removed", _changed(node, "ifs", rest)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "condition negated", _changed(node, "test", _negated(node.test))


def _edits_of_expression(node: ast.expr) -> Iterator[Edit]:
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp():
            yield "and for or", _changed(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for index in range(len(node.values)):
                rest = [value for at, value in enumerate(node.values) if at != index]
                yield f"without operand {index + 1}", _changed(node, "values", rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not()):
            yield "without not", node.operand
        case ast.BinOp() if type(node.op) in OPERATORS:
            yield "operator", _changed(node, "op", OPERATORS[type(node.op)]())
        case ast.Constant():
            yield from (("constant", ast.Constant(value)) for value in _constants(node.value))
        case ast.Name(id=name) if name in FUNCTIONS:
            yield "function", _changed(node, "id", FUNCTIONS[name])


def _edits_of_statement(node: ast.stmt) -> Iterator[Edit]:
    match node:
        case ast.AugAssign():
            if type(node.op) in OPERATORS:
                yield "operator", _changed(node, "op", OPERATORS[type(node.op)]())
            yield "statement removed", ast.Pass()
        case ast.Return() if node.value is not None and not _is_none(node.value):
            yield "returns None", ast.Return(value=ast.Constant(None))
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement removed", ast.Pass()
        case ast.Break():
            yield "continue for break", ast.Continue()
        case ast.Continue():
            yield "break for continue", ast.Break()


def _comparisons(node: ast.Compare) -> Iterator[Edit]:
    for index, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:
            ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield f"{other.__name__} for {type(op).__name__}", _changed(node, "ops", ops)


def _constants(value: object) -> tuple[bool | int | str, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1,)
    if isinstance(value, str):
        return ("",) if value else ("x",)
    return ()


def _changed(node: ast.AST, field: str, value: object) -> ast.AST:
    fresh = copy.copy(node)
    setattr(fresh, field, value)
    return fresh


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        opposite = COMPARISONS[type(test.ops[0])][-1]
        return ast.Compare(left=test.left, ops=[opposite()], comparators=test.comparators)
    return ast.UnaryOp(op=ast.Not(), operand=test)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
