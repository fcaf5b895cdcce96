"""Error messages for the user: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DONE, WRONG, MISUSED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


class Complaint(Exception):  # noqa: N818 - what it is called everywhere
    """An error of a verb, with the exit code that says whose fault it is."""

    def __init__(self, problem: str, fix: str = "", code: int = WRONG) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix
        self.code = code


class Misuse(Complaint):
    """The command was used incorrectly."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem, fix, MISUSED)


def nearest(word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str:
    """The known word that was probably meant; "" if none is similar."""
    names, folded = list(known), word.strip().lower()
    named = (synonyms or {}).get(folded, "")
    if named in names:
        return named
    if not folded:
        return ""
    begins = [name for name in names if name.startswith(folded)]
    if begins:
        return begins[0]
    import difflib  # here, because most calls have no typo

    return next(iter(difflib.get_close_matches(folded, names, n=1, cutoff=0.5)), "")


def choose(word: str, known: Iterable[str], what: str) -> str:
    """The word if it is known; otherwise raise a Misuse that suggests the nearest known word."""
    names = list(known)
    if word in names:
        return word
    raise _unknown(word, names, what, nearest(word, names))


def _unknown(word: str, names: Iterable[str], what: str, near: str) -> Misuse:
    meant = f" Did you mean {near!r}?" if near else ""
    return Misuse(f"there is no {what} {word!r}.{meant}", f"Known: {', '.join(names)}")


def choose_dialect(word: str) -> str:
    """Validate the name of a dialect and return its full name."""
    from cannery.dialects import all_dialects, dialect_names, find_dialect, is_dialect

    folded = word.strip().lower()
    if is_dialect(folded):
        return find_dialect(folded).name
    names = dialect_names()
    short = {name: each.name for each in all_dialects() for name in each.short_names}
    near = nearest(word, [*names, *short])
    raise _unknown(word, names, "dialect", short.get(near, near))
