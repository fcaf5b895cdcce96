"""Completion scripts for bash, zsh and fish, generated from the parsers.

Conversation ids are looked up at completion time, by ``cannery completion ids BEGINNING``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from cannery.cli.catalogue import VERBS
from cannery.cli.parser import verb_parser
from cannery.dialects import dialect_names


def _options(verb: str) -> Iterator[tuple[str, str, str]]:
    """Yield each long option of a verb, its help, and its possible values."""
    for action in verb_parser(verb)._actions:  # noqa: SLF001 - argparse has no public way to list options
        for option in action.option_strings:
            if option.startswith("--"):
                yield option, action.help or "", " ".join(_values(action))


def _takes_ids(verb: str) -> bool:
    """Whether a verb takes ids of conversations."""
    actions = verb_parser(verb)._actions  # noqa: SLF001 - as above
    return any("ID" in str(action.metavar).split("|") for action in actions)


def _values(action: argparse.Action) -> Iterable[str]:
    if action.choices is not None:
        return map(str, action.choices)
    return dialect_names() if action.metavar == "DIALECT" else ()


def _bash() -> str:
    verbs = [
        f"    {verb}) words='{' '.join(option for option, _, _ in _options(verb))}' ;;"
        for verb in VERBS
    ]
    values = {option: words for verb in VERBS for option, _, words in _options(verb) if words}
    after = [f"    {option}) words='{words}' ;;" for option, words in sorted(values.items())]
    with_ids = "|".join(filter(_takes_ids, VERBS))
    return f"""# cannery completion for bash
_cannery() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=''
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W '{" ".join(VERBS)}' -- "$word"))
    return
  fi
  case $before in
{chr(10).join(after)}
  esac
  if [[ -z $words && $word == -* ]]; then
    case ${{COMP_WORDS[1]}} in
{chr(10).join("  " + line for line in verbs)}
    esac
  elif [[ -z $words ]]; then
    case ${{COMP_WORDS[1]}} in
      {with_ids}) words=$(cannery completion ids "$word" 2>/dev/null | cut -f1) ;;
    esac
  fi
  [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _cannery cannery
"""


def _zsh() -> str:
    listed = "\n".join(f"    '{verb}:{_quoted(text)}'" for verb, text in VERBS.items())
    cases = "\n".join(
        f"    {verb}) _arguments {' '.join(_zsh_options(verb))} {_zsh_rest(verb)} ;;"
        for verb in VERBS
    )
    return f"""#compdef cannery
# cannery completion for zsh
_cannery_ids() {{
  local -a ids=("${{(@f)$(cannery completion ids "$PREFIX" 2>/dev/null | tr ':\\t' ' :')}}")
  [[ -n $ids ]] && _describe -V conversation ids
  _files
}}
_cannery() {{
  local -a verbs=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words; (( CURRENT-- ))
  case $verb in
{cases}
  esac
}}
_cannery "$@"
"""


def _zsh_rest(verb: str) -> str:
    return "'*:conversation:_cannery_ids'" if _takes_ids(verb) else "'*:file:_files'"


def _zsh_options(verb: str) -> Iterator[str]:
    for option, text, words in _options(verb):
        values = f": :({words})" if words else ""
        yield f"'{option}[{_quoted(text)}]{values}'"


def _fish() -> str:
    lines = ["# cannery completion for fish", "complete -c cannery -f -n __fish_use_subcommand"]
    for verb, text in VERBS.items():
        lines.append(f"complete -c cannery -n __fish_use_subcommand -a {verb} -d '{_quoted(text)}'")
        seen = f"complete -c cannery -n '__fish_seen_subcommand_from {verb}'"
        if _takes_ids(verb):
            lines.append(f"{seen} -k -a '(cannery completion ids (commandline -ct) 2>/dev/null)'")
        for option, about, words in _options(verb):
            values = f" -x -a '{words}'" if words else ""
            lines.append(f"{seen} -l {option[2:]} -d '{_quoted(about)}'{values}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", ",")


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
