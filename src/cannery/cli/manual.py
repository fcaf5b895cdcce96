"""Generates the page ``docs/cli.md`` from the parsers: ``python -m cannery.cli.manual > docs/cli.md``."""

from __future__ import annotations

import sys

from cannery.cli.catalogue import VERBS
from cannery.cli.parser import overview, verb_parser
from cannery.cli.terminal import choose_colour

# The width of the page, independent of the terminal.
_WIDE = 100
_INTRODUCTION = """\
# The command line

Written from the parsers by `python -m cannery.cli.manual`; do not edit.

- **The result goes to stdout, everything else to stderr.** On a terminal the result is coloured, aligned and paged; in
  a pipe it is plain, one record a line, without headers. `--json` writes the result of any verb as JSON, `--quiet`
  leaves out notes.
- **`-` is stdin.** A verb that reads a file also reads a pipe.
- **Ids** may be given as any unique prefix. `@` is the most recently changed conversation, `@2` the one before.
- **The store** is `--store`, else `CANNERY_STORE`, else `$XDG_DATA_HOME/cannery`, else `~/.local/share/cannery`.
- **Files** that a verb writes appear when they are complete, or not at all.
- **Options** may be given anywhere after the verb; `--store`, `--encryption-key`, `--json`, `--quiet` and `--color`
  also before it.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | the input is invalid, missing or damaged, or the policy refuses a loss |
| 2 | usage error: an unknown verb, option, dialect, format or setting |
| 130 | interrupted with Ctrl-C; no file is left incomplete |
| 141 | the reader of its output has closed the pipe |

| variable | meaning |
|---|---|
| `CANNERY_STORE` | the path or URL of the store |
| `CANNERY_ENCRYPTION_KEY` | the source of the keys of an encrypted store |
| `NO_COLOR`, `FORCE_COLOR` | never colour, always colour; `--color` overrides both |
| `PAGER` | the pager for long results on a terminal (`less`) |
| `CANNERY_DEBUG` | print the traceback of an error |

Completion for a shell: `cannery completion bash`, `zsh` or `fish`.
"""


def manual() -> str:
    """Generate the whole page."""
    choose_colour("never")
    parts = [_INTRODUCTION, f"## cannery\n\n```text\n{overview(_WIDE)}```\n"]
    for verb in VERBS:
        parser = verb_parser(verb)
        parser.wide = _WIDE
        parts.append(f"## {verb}\n\n```text\n{parser.format_help()}```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(manual())
