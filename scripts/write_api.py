"""Write docs/api.md: every public name with its parameters and first sentence, part by part.

The page is made from the code and checked by ``tests/house/test_public_names.py``; ``make docs``
writes it again.
"""

import importlib
import inspect
import sys
from collections import defaultdict
from pathlib import Path

import cannery

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
OPENING = """\
# The public names

Everything that `import cannery` offers, by the part that it comes from. Written by `make docs` from
the code; do not edit.
"""


def origin(value: object) -> str:
    """The part of the package that a public value comes from, such as ``messages``."""
    module = getattr(value, "__module__", None) or type(value).__module__
    parts = module.split(".")
    return parts[1] if parts[0] == "cannery" and len(parts) > 1 else ""


def first_sentence(subject: object) -> str:
    """The first paragraph of a docstring, on one line and safe in a table."""
    paragraph = (inspect.getdoc(subject) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`").replace("|", "\\|")


def title(name: str, value: object) -> str:
    """A name as it is used: a function with its parameters, anything else alone."""
    if not inspect.isroutine(value):
        return f"`{name}`"
    signature = inspect.signature(value)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    shown = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return f"`{name}{shown}`".replace("|", "\\|")


def explanation(value: object) -> str:
    """What a name is; a constant is shown by the kind of value that it holds."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return first_sentence(value)
    return first_sentence(type(value)) if origin(value) else f"a `{type(value).__name__}`"


def page() -> str:
    """The whole page, as it should be."""
    parts: dict[str, list[str]] = defaultdict(list)
    for name in getattr(cannery, "__all__", []):
        value = getattr(cannery, name)
        parts[origin(value)].append(f"| {title(name, value)} | {explanation(value)} |")
    text = [OPENING]
    for part, rows in sorted(parts.items()):
        heading = f"`cannery.{part}`" if part else "`cannery`"
        about = first_sentence(importlib.import_module(f"cannery.{part}" if part else "cannery"))
        text.append(
            "\n".join([f"## {heading}", "", about, "", "| name | |", "|---|---|", *rows]) + "\n"
        )
    return "\n".join(text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}: {len(getattr(cannery, '__all__', []))} names\n")
