"""Runs the Python examples of the documents and compares what they say with what happens.

A fenced block marked ``python`` is run as a program of its own. An expression statement that ends
in a comment promises something when the comment is a Python literal, or when the statement prints:

    cannery.normalize_role(" Human ")  # 'user'
    print(rendered.losses[0].code)     # unsupported_control

Other comments are prose. A block marked ``python planned`` shows what has not landed; it must fail
for want of a name, so that the mark cannot outlive its reason.
"""

import ast
import contextlib
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

from tests.house.sources import documents, label

FENCE = re.compile(
    r"^(?P<indent> *)```python(?P<marks>[^\n]*)\n(?P<source>.*?)^(?P=indent)```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Example:
    """One fenced block of a document."""

    document: Path
    line: int
    source: str
    planned: bool

    def __str__(self):
        return f"{label(self.document)}:{self.line}"


def find_examples():
    """Every Python block of every document."""
    return [
        Example(
            document=document,
            line=text.count("\n", 0, match.start()) + 2,
            source=re.sub(f"^{match['indent']}", "", match["source"], flags=re.MULTILINE),
            planned="planned" in match["marks"].split(),
        )
        for document in documents()
        for text in [document.read_text(encoding="utf-8")]
        for match in FENCE.finditer(text)
    ]


def comments_by_line(source):
    """The text of the comment on each line that has one."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: token.string.lstrip("# ").rstrip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def is_print(statement):
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
    return False


def promise(statement, comment):
    """What the comment beside a statement promises, as (kind, value), or None for prose."""
    if comment is None or not isinstance(statement, ast.Expr):
        return None
    if is_print(statement):
        return "output", comment
    try:
        return "value", ast.literal_eval(comment)
    except (SyntaxError, ValueError):
        return None


def run(source, name="example", names=None):
    """Run an example among the given names; raises AssertionError where it does not keep a promise."""
    comments = comments_by_line(source)
    names = {"__name__": name} if names is None else names
    for statement in ast.parse(source).body:
        promised = promise(statement, comments.get(statement.end_lineno))
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            value = execute(statement, name, names)
        match promised:
            case ("output", text):
                assert output.getvalue().strip() == text, f"{name}, line {statement.lineno}"
            case ("value", literal):
                assert value == literal, f"{name}, line {statement.lineno}"


def execute(statement, name, names):
    """Execute one statement among the given names, giving the value if it is an expression."""
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), name, "eval"), names)  # noqa: S307 - our own documents
    exec(compile(ast.Module([statement], type_ignores=[]), name, "exec"), names)  # noqa: S102 - the same
    return None
