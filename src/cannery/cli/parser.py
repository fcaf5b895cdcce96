"""The argument parser: argparse with our own help and error texts, so that help is the same in every Python version."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from cannery.cli.catalogue import GROUPS, VERBS, load_verb
from cannery.cli.complaints import Misuse, nearest
from cannery.cli.terminal import COLOUR_CHOICES, paint, width

# Help is as wide as the terminal, within these limits.
_NARROWEST, _WIDEST = 40, 100
_LAST_PORT = 65535
_EXAMPLES = """\
  echo '{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}]}' | cannery translate --to anthropic_messages
  cannery doctor request.json
  cannery import ~/Downloads/conversations.json
  cannery list
  cannery serve"""


def whole(word: str) -> int:
    """Parse a number from 0 up."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"takes a number from 0 up, not {word!r}")
    return int(word)


def port(word: str) -> int:
    """Parse a port number."""
    if not word.isdecimal() or int(word) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"takes a port from 0 to {_LAST_PORT}, not {word!r}")
    return int(word)


class Parser(argparse.ArgumentParser):
    """A parser with our own error messages and help; ``wide`` is the width of the help, 0 for the terminal's."""

    wide: int = 0

    def error(self, message: str) -> NoReturn:
        """Raise a Misuse that suggests the nearest known option."""
        problem = message.replace("the following arguments are required: ", "missing: ")
        problem = re.sub(r"^argument (\S+?)(?:/(\S+))?: (?=takes)", r"\1 ", problem)
        problem = problem.removeprefix("argument ")
        if message.startswith("unrecognized arguments: "):
            word = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
            near = nearest(word, list(self._option_string_actions)) if word[:1] == "-" else ""
            problem = f"{self.prog} takes no {word!r}." + (f" Did you mean {near}?" if near else "")
        raise Misuse(problem, f"See `{self.prog} --help`")

    def format_usage(self) -> str:
        """The usage line: the verb and its arguments."""
        taken = [_placeholder(action) for action in self._positionals_of()]
        return " ".join(["Usage:", self.prog, *taken, "[options]"]) + "\n"

    def format_help(self) -> str:
        """Usage, description, arguments, options, examples."""
        import textwrap

        wide = self.wide or text_width()
        parts = [self.format_usage(), textwrap.fill(self.description or "", wide)]
        if positionals := self._positionals_of():
            parts += ["", paint("Arguments", "bold")]
            parts += [_described(action, wide) for action in positionals]
        options = [a for a in self._actions if a.option_strings and a.help != argparse.SUPPRESS]
        parts += ["", paint("Options", "bold"), *(_described(action, wide) for action in options)]
        if self.epilog:
            parts += ["", paint("Examples", "bold"), textwrap.indent(self.epilog.strip(), "  ")]
        return "\n".join(parts) + "\n"

    def _get_formatter(self) -> argparse.HelpFormatter:
        # argparse creates a formatter for each option; without a width it would query the terminal each time.
        return argparse.HelpFormatter(self.prog, width=_WIDEST)

    def _positionals_of(self) -> list[argparse.Action]:
        return [action for action in self._actions if not action.option_strings]


def _placeholder(action: argparse.Action) -> str:
    name = _value_of(action)
    dots = "…" if action.nargs in ("*", "+") else ""
    is_optional = action.nargs in ("*", "?")
    return f"[{name}{dots}]" if is_optional else f"{name}{dots}"


def _value_of(action: argparse.Action) -> str:
    if action.metavar is not None:
        return str(action.metavar)
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def text_width() -> int:
    """The width of running text on this terminal."""
    return min(max(width(), _NARROWEST), _WIDEST)


def _described(action: argparse.Action, wide: int) -> str:
    left = ", ".join(action.option_strings) or _placeholder(action)
    if action.option_strings and action.nargs != 0:
        left += f" {_value_of(action)}"
    import textwrap

    # On a narrow terminal the help text is below its option.
    column = 26 if wide >= 70 else 6
    lines = textwrap.wrap(action.help or "", wide - column - 2) or [""]
    if len(left) > column - 2:
        lines.insert(0, "")
    return "\n".join(
        f"  {left if not number else '':{column}}{line}".rstrip()
        for number, line in enumerate(lines)
    )


def verb_parser(name: str) -> Parser:
    """Build the parser of one verb."""
    verb = load_verb(name)
    parser = Parser(
        prog=f"cannery {name}",
        description=verb.DESCRIPTION,
        epilog=verb.EXAMPLES,
        add_help=False,
        allow_abbrev=False,
    )
    verb.add_arguments(parser)
    if getattr(verb, "USES_STORE", False):
        parser.add_argument(
            "--store", metavar="PLACE", help="the store: a path or URL (CANNERY_STORE)"
        )
        parser.add_argument(
            "--encryption-key",
            metavar="SOURCE",
            help="the source of the keys of an encrypted store: file:PATH or command:WORDS, with {scope} "
            "(CANNERY_ENCRYPTION_KEY)",
        )
    parser.add_argument("--json", action="store_true", help="write the result as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes and no progress bar")
    parser.add_argument(
        "--color", choices=COLOUR_CHOICES, default="auto", help="when to colour (NO_COLOR: never)"
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this help")
    return parser


def parse(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of a verb; options may be between its arguments."""
    parser = verb_parser(name)
    if "--help" in arguments or "-h" in arguments:
        return argparse.Namespace(help=parser.format_help())
    options = parser.parse_intermixed_args(list(arguments))
    return _checked(options)


def _checked(options: argparse.Namespace) -> argparse.Namespace:
    options.help = None
    return options


def overview(wide: int = 0) -> str:
    """The output of ``cannery`` without arguments, ``wide`` columns wide, or as wide as the terminal."""
    parts = ["Cannery: the conversation layer for LLM applications.", ""]
    import textwrap

    wide = wide or text_width()
    for group, verbs in GROUPS.items():
        parts.append(paint(group, "bold"))
        for verb, text in verbs.items():
            parts += textwrap.wrap(
                text, wide, initial_indent=f"  {verb:11}", subsequent_indent=" " * 13
            )
        parts.append("")
    parts += [paint("Examples", "bold"), _EXAMPLES, ""]
    more = (
        "`cannery VERB --help` describes a verb. Exit codes: 0 success, 1 failure, 2 usage error."
    )
    parts.append(textwrap.fill(more, wide))
    return "\n".join(parts) + "\n"


def find_verb(word: str) -> str:
    """The verb of this name; otherwise raise a Misuse that suggests the nearest one."""
    if word in VERBS:
        return word
    near = nearest(word, VERBS, _SYNONYMS)
    meant = f" Did you mean `cannery {near}`?" if near else ""
    raise Misuse(f"there is no verb {word!r}.{meant}", "`cannery` without arguments lists them")


_SYNONYMS: dict[str, Any] = {
    "branch": "fork",
    "cat": "show",
    "check": "verify",
    "convert": "translate",
    "find": "search",
    "fsck": "verify",
    "grep": "search",
    "load": "import",
    "log": "list",
    "logs": "list",
    "ls": "list",
    "remove": "delete",
    "rm": "delete",
    "save": "export",
    "server": "serve",
    "settings": "config",
    "start": "serve",
    "view": "show",
}
