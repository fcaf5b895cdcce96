"""Syntax highlighting: spans with short classes, for a fixed set of languages.

Only languages in the table and code of limited size are highlighted: a lexer is a set of regular expressions, and the
code is untrusted.
"""

from __future__ import annotations

import functools
from typing import Any

from markupsafe import Markup, escape
from pygments import highlight as _highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from cannery.viewer.elements import FRAGMENTS
from cannery.viewer.visible import visible

_LONGEST = 60_000
_LONGEST_LINE = 5_000
# Names of languages, each with its Pygments lexer.
_LEXERS = {
    **{name: name for name in ("bash", "c", "cpp", "csharp", "css", "dart", "diff", "docker")},
    **{name: name for name in ("elixir", "go", "graphql", "haskell", "html", "ini", "java")},
    **{name: name for name in ("javascript", "json", "kotlin", "lua", "make", "markdown", "nix")},
    **{name: name for name in ("perl", "php", "powershell", "protobuf", "python", "r", "ruby")},
    **{name: name for name in ("rust", "scala", "sql", "swift", "terraform", "toml")},
    **{name: name for name in ("tsx", "typescript", "xml", "yaml", "zig", "console", "jsx")},
    "c++": "cpp",
    "cc": "cpp",
    "cs": "csharp",
    "dockerfile": "docker",
    "ex": "elixir",
    "golang": "go",
    "h": "c",
    "hpp": "cpp",
    "hs": "haskell",
    "htm": "html",
    "js": "javascript",
    "json5": "json",
    "jsonc": "json",
    "jsonl": "json",
    "kt": "kotlin",
    "makefile": "make",
    "md": "markdown",
    "mjs": "javascript",
    "patch": "diff",
    "pl": "perl",
    "proto": "protobuf",
    "ps1": "powershell",
    "py": "python",
    "pyi": "python",
    "python3": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "shell": "bash",
    "shell-session": "console",
    "svg": "xml",
    "tf": "terraform",
    "ts": "typescript",
    "yml": "yaml",
    "zsh": "bash",
}


@functools.cache
def _lexer(name: str) -> Any:
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)


@functools.cache
def _formatter() -> Any:
    return HtmlFormatter(nowrap=True, classprefix="k-")


def language_of(name: str) -> str:
    """The lexer for a language name or a file name extension; "" if it is unknown."""
    word = name.strip().split()[0] if name.strip() else ""
    return _LEXERS.get(word.lower(), "")


def language_of_path(path: str) -> str:
    """The lexer for a file, by its name."""
    name = path.replace("\\", "/").rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    return language_of(ending if dot and stem else name)


def highlight(code: str, language: str) -> Markup:
    """Code as HTML, highlighted if its language is known and it is not too long."""
    known = language_of(language)
    code = visible(code)
    is_long = len(code) > _LONGEST or any(len(line) > _LONGEST_LINE for line in code.split("\n"))
    if not known or is_long:
        return escape(code)
    return FRAGMENTS.get(f"code:{known}", code, lambda text: _coloured(text, known))


def _coloured(code: str, language: str) -> Markup:
    return Markup(_highlight(code, _lexer(language), _formatter()).removesuffix("\n"))  # noqa: S704 - Pygments escapes
