"""Write docs/api.md: every public name with its parameters and first sentence, part by part.

The page is made from the code and checked by ``tests/house/test_public_names.py``; ``make docs``
writes it again.
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
    """The module that defines a public name; a plain value is looked for where it is assigned."""
    module = getattr(value, "__module__", "")
    if module.startswith("cannery.") and (inspect.isclass(value) or inspect.isroutine(value)):
        return sys.modules[module]
    loaded = sorted(name for name in sys.modules if name.startswith("cannery."))
    candidates = (sys.modules[module] for module in loaded)
    return next((module for module in candidates if assigns(module, name)), cannery)


def assigns(module: ModuleType, name: str) -> bool:
    """Whether a module's own text gives a name its value."""
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
    """What a name is; a plain value is described by its kind."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return first_paragraph(value.__doc__)
    if isinstance(value, GenericAlias | UnionType) or type(value).__module__ == "typing":
        return "A type, for annotations."
    if type(value).__module__.startswith("cannery."):
        return first_paragraph(type(value).__doc__)
    return f"A constant of type `{type(value).__name__}`."


def page() -> str:
    """The whole page, as it should be."""
    parts: dict[str, list[str]] = defaultdict(list)
    for name in getattr(cannery, "__all__", []):
        value = getattr(cannery, name)
        parts[part(home(name, value))].append(f"| {title(name, value)} | {explanation(value)} |")
    sections = [OPENING]
    for name, rows in sorted(parts.items()):
        about = first_paragraph(sys.modules[name].__doc__)
        lines = [f"## `{name}`", "", about, "", "| name | |", "|---|---|", *rows, ""]
        sections.append("\n".join(lines))
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(getattr(cannery, '__all__', []))} names")
