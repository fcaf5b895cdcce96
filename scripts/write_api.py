"""Write docs/api.md: every public name with its parameters and first sentence, by part of the package.

The page is generated from the code and checked by ``tests/house/test_public_names.py``; ``make docs`` writes it again.
"""

import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path
from types import GenericAlias, ModuleType, UnionType

import cannery

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
LONGEST_DEFAULT = 20
OPENING = """\
# The public names

Everything that `import cannery` offers, by the part that it comes from. Written by `make docs` from
the code; do not edit.
"""


def home(name: str, value: object) -> ModuleType:
    """The module that defines a public name; for a plain value, the module that assigns it."""
    module = getattr(value, "__module__", "")
    if module.startswith("cannery.") and (inspect.isclass(value) or inspect.isroutine(value)):
        return sys.modules[module]
    loaded = sorted(name for name in sys.modules if name.startswith("cannery."))
    candidates = (sys.modules[module] for module in loaded)
    return next((module for module in candidates if assigns(module, name)), cannery)


def assigns(module: ModuleType, name: str) -> bool:
    """Whether a module's own source assigns a name."""
    return (
        re.search(rf"^{name}\b[^=\n(]*=(?!=)", inspect.getsource(module), re.MULTILINE) is not None
    )


def part(module: ModuleType) -> str:
    """The part of the package that a module belongs to, such as ``cannery.messages``."""
    return ".".join(module.__name__.split(".")[:2])


def first_paragraph(docstring: str | None) -> str:
    """The first paragraph of a docstring, on one line and safe in a table."""
    paragraph = inspect.cleandoc(docstring or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`").replace("|", "\\|")


def title(name: str, value: object) -> str:
    """A name as it is used: a function with its parameters, anything else alone."""
    if not inspect.isroutine(value):
        return f"`{name}`"
    signature = inspect.signature(value)
    bare = [shortened(parameter) for parameter in signature.parameters.values()]
    shown = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return f"`{name}{shown}`".replace("=Ellipsis", "=…").replace("|", "\\|")


def shortened(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter without its annotation, and with a long default left out."""
    default = parameter.default
    if default is not inspect.Parameter.empty and len(repr(default)) > LONGEST_DEFAULT:
        default = Ellipsis
    return parameter.replace(annotation=inspect.Parameter.empty, default=default)


def explanation(value: object) -> str:
    """The description of a name; for a plain value, that of its type."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return first_paragraph(value.__doc__)
    if isinstance(value, GenericAlias | UnionType) or type(value).__module__ == "typing":
        return "A type, for annotations."
    if type(value).__module__.startswith("cannery."):
        return first_paragraph(type(value).__doc__)
    return f"A constant of type `{type(value).__name__}`."


def methods(value: object) -> list[str]:
    """A row for each public method and property of a class of ours, in the order of their names."""
    if not inspect.isclass(value):
        return []
    found: dict[str, object] = {}
    for base in reversed(value.__mro__):
        if base.__module__.startswith("cannery."):
            found |= {name: member for name, member in vars(base).items() if name[0] != "_"}
    rows = []
    for name, member in sorted(found.items()):
        if isinstance(member, property):
            rows.append(f"| `{name}` | {first_paragraph(member.__doc__)} |")
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            rows.append(
                f"| {title(name, getattr(value, name))} | {first_paragraph(member.__doc__)} |"
            )
    return [row.replace("(self, ", "(").replace("(self)", "()") for row in rows]


def page() -> str:
    """Generate the whole page."""
    offered: dict[str, list[str]] = defaultdict(list)
    parts: dict[str, list[str]] = defaultdict(list)
    for name in getattr(cannery, "__all__", []):
        value = getattr(cannery, name)
        where = part(home(name, value))
        parts[where].append(f"| {title(name, value)} | {explanation(value)} |")
        if rows := methods(value):
            offered[where] += [f"### `{name}`", "", "| method | |", "|---|---|", *rows, ""]
    sections = [OPENING]
    for name, rows in sorted(parts.items()):
        about = first_paragraph(sys.modules[name].__doc__)
        lines = [f"## `{name}`", "", about, "", "| name | |", "|---|---|", *rows, ""]
        lines += offered[name]
        sections.append("\n".join(lines))
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(getattr(cannery, '__all__', []))} names")
