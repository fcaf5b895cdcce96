"""The page ``docs/cli.md``, written from the parsers: ``python -m cannery.cli.manual > docs/cli.md``."""

from __future__ import annotations

import sys

from cannery.cli.catalogue import VERBS
from cannery.cli.parser import overview, verb_parser
from cannery.cli.terminal import choose_colour

# Columns of the page, whatever the terminal has.
_WIDE = 100
_INTRODUCTION = """\
# The command line

Written from the parsers by `python -m cannery.cli.manual`; do not edit.

- **The answer goes to stdout, everything else to stderr.** On a terminal it is coloured, aligned and paged; in a
  pipe it is plain, one record a line, without headers. `--json` gives every verb's answer as JSON, `--quiet` leaves out
  notes.
- **`-` is stdin.** A verb that reads a file reads a pipe.
- **Ids** may be cut to any unique beginning. `@` is the conversation that changed last, `@2` the one before.
- **The store** is `--store`, else `CANNERY_STORE`, else `$XDG_DATA_HOME/cannery`, else `~/.local/share/cannery`.
- **Files** that a verb writes appear when they are complete, or not at all.
- **Options** may stand anywhere, `--store`, `--json`, `--quiet` and `--color` also before the verb.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it ran, and what it looked at is wrong, missing, damaged or lost something that was not allowed to be lost |
| 2 | it was asked wrongly: a verb, option, dialect, format or setting that does not exist |
| 130 | interrupted with Ctrl-C; nothing is left half done |
| 141 | nobody read its output any more |

| variable | meaning |
|---|---|
| `CANNERY_STORE` | where the store is |
| `NO_COLOR`, `FORCE_COLOR` | never colour, always colour; `--color` beats both |
| `PAGER` | what long answers are shown with on a terminal (`less`) |
| `CANNERY_DEBUG` | show where an error comes from |

Completion for a shell: `cannery completion bash`, `zsh` or `fish`.
"""


def manual() -> str:
    """The whole page."""
    choose_colour("never")
    parts = [_INTRODUCTION, f"## cannery\n\n```text\n{overview(_WIDE)}```\n"]
    for verb in VERBS:
        parser = verb_parser(verb)
        parser.wide = _WIDE
        parts.append(f"## {verb}\n\n```text\n{parser.format_help()}```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(manual())
