"""Record translation results for many bodies, and compare a later checkout with them.

A change of translation is judged by its differences. ``freeze`` writes, for every given body, the conversation read
from it and, for every target, the body, the losses, the repairs and the aliases, or the error. ``compare`` translates
the frozen bodies again and prints the differences, grouped by kind, with counts and examples.

    python scripts/compare_translations.py freeze FOLDER --corpus ../shared/corpus.tar.xz
    python scripts/compare_translations.py compare FOLDER --source openai_chat --sample 500

The frozen folder has one compressed JSONL file for each source dialect and kind; each line contains one body with all
its results, so comparing needs no corpus. Only public names of the package are used.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import orjson

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import cannery  # noqa: E402 - the checkout of this script takes precedence over an installed package
from tests.corpus.items import open_corpus  # noqa: E402 - as above

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

KINDS = ("request", "response", "stream")
FOLDERS = {"requests": "request", "responses": "response", "streams": "stream"}
# A model of each API, because rules depend on the model; a body's own model is tested too.
MODELS = {
    "anthropic_messages": "claude-opus-4-8",
    "gemini_generate": "gemini-2.5-pro",
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5",
}
_NUMBER = re.compile(r"\[\d+\]")
_SHOWN = 300
_RESPELLED = " (the same JSON spelled otherwise)"


class Item(msgspec.Struct, frozen=True):
    """One body, with its origin."""

    identifier: str
    dialect: str
    kind: str
    data: bytes


class Frozen(msgspec.Struct, omit_defaults=True):
    """One line of a frozen file; ``text`` is the body, or ``base64`` if the body is not valid UTF-8."""

    identifier: str
    dialect: str
    kind: str
    text: str = ""
    base64: str = ""
    conversation: Any = None
    results: dict[str, msgspec.Raw] = {}

    @property
    def data(self) -> bytes:
        """The body."""
        return base64.b64decode(self.base64) if self.base64 else self.text.encode()


_LINE = msgspec.json.Decoder(Frozen)


# --- the bodies ----------------------------------------------------------------------------------


def case_items() -> Iterator[Item]:
    """The bodies of ``tests/data/dialects``."""
    for path in sorted((ROOT / "tests" / "data" / "dialects").glob("*/*/*")):
        kind = FOLDERS.get(path.parent.name)
        if kind is None or path.stem == "index":
            continue
        name, dialect = f"case/{path.parent.name}/{path.stem}", path.parent.parent.name
        if kind == "stream":
            yield Item(name, dialect, kind, path.read_bytes())
        else:
            body = json.loads(path.read_text("utf-8"))["body"]
            yield Item(name, dialect, kind, spell(body))


def corpus_items(path: Path) -> Iterator[Item]:
    """The bodies of a corpus: an archive or a folder."""
    with open_corpus(path) as corpus:
        for dialect in cannery.dialect_names():
            for kind in KINDS:
                for item in corpus.items(dialect, kind):
                    yield Item(f"corpus/{kind}s/{item.name}", dialect, kind, item.data)


def listed_items(file: Path) -> Iterator[Item]:
    """The bodies of a JSONL file of objects with ``identifier``, ``dialect``, ``kind`` and ``body``."""
    for line in file.read_bytes().splitlines():
        entry = json.loads(line)
        body = entry["body"]
        data = body.encode() if isinstance(body, str) else spell(body)
        yield Item(entry["identifier"], entry["dialect"], entry["kind"], data)


def drawn_items(number: int) -> Iterator[Item]:
    """A number of bodies from each strategy of ``tests/strategies`` for each dialect, the same in every run."""
    from tests.strategies import bodies
    from tests.strategies.agent_bodies import agent_bodies
    from tests.strategies.drawing import draw
    from tests.strategies.mutations import spoiled
    from tests.strategies.sdk_bodies import REQUESTS, sdk_request, sdk_response

    for dialect in MODELS:
        strategies = {
            ("request", "wild"): bodies.requests(dialect),
            ("request", "typed"): bodies.typed_requests(dialect),
            ("request", "tame"): bodies.tame_requests(dialect),
            ("request", "spoiled"): spoiled(dialect, "request"),
            ("response", "wild"): bodies.responses(dialect),
            ("response", "tame"): bodies.tame_responses(dialect),
            ("response", "spoiled"): spoiled(dialect, "response"),
        }
        for (kind, name), strategy in strategies.items():
            for index, body in enumerate(draw(strategy, number)):
                yield Item(f"drawn/{name}/{index}", dialect, kind, spell(body))
    for index, body in enumerate(draw(agent_bodies(), number)):
        yield Item(f"drawn/agent/{index}", "anthropic_messages", "request", body)
    for name in REQUESTS:
        dialect = name.partition(" ")[0]
        for seed in range(number):
            title = f"drawn/sdk/{name}/{seed}".replace(" ", "_")
            yield Item(title, dialect, "request", spell(sdk_request(name, seed)))
            yield Item(title, dialect, "response", spell(sdk_response(name, seed)))


def spell(body: Any) -> bytes:
    """A JSON value as bytes; lone surrogates can only be written as escapes."""
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body).encode()


# --- what translation gives ----------------------------------------------------------------------


def targets_of(item: Item, *, names: Iterable[str]) -> Iterator[tuple[str, str, str | None]]:
    """The label, the dialect and the model of every target of an item."""
    for name in names:
        if item.kind == "request" or name in MODELS:
            yield name, name, None
        if item.kind == "request" and name in MODELS and name != item.dialect:
            yield f"{name}/{MODELS[name]}", name, MODELS[name]


def attempt(action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run an action; return its result or its error."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - errors are part of the comparison
        return {"error": f"{type(error).__name__}: {error}"}


def rendered_fields(rendered: cannery.Rendered) -> dict[str, Any]:
    """A rendering as JSON values; the body is not changed."""
    aliases = rendered.aliases
    return {
        "body": _spelled(rendered.body),
        "losses": [[loss.code, loss.severity, loss.path, loss.detail] for loss in rendered.losses],
        "repairs": [[repair.name, repair.path, repair.detail] for repair in rendered.repairs],
        "aliases": {
            "names": dict(aliases.names),
            "ids": dict(aliases.ids),
            "freeform": sorted(aliases.freeform),
        },
    }


def _spelled(body: bytes) -> Any:
    """A body verbatim; as a string if it contains a lone surrogate, which decoders refuse."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.MsgspecError:
        return body.decode()
    return orjson.Fragment(spell(json.loads(body)) if b"\n" in body else body)


def result_of(item: Item, target: str, model: str | None) -> dict[str, Any]:
    """The result of translating an item to one target."""
    if item.kind == "stream":
        return stream_result(item, target)
    return rendered_fields(
        cannery.translate(
            item.data,
            source=item.dialect,
            target=target,
            kind=item.kind,
            policy="allow",
            model=model,
        )
    )


def stream_result(item: Item, target: str) -> dict[str, Any]:
    """The events of a translated stream, and the folded stream as a whole answer of the target."""
    written = b"".join(cannery.translate_stream([item.data], source=item.dialect, target=target))

    def fold() -> dict[str, Any]:
        response = cannery.fold(cannery.normalize_stream([item.data], item.dialect))
        return rendered_fields(cannery.nativize_response(response, target, policy="allow"))

    return {"events": events_of(written), "whole": attempt(fold)}


def events_of(written: bytes) -> list[Any]:
    """The server-sent events of a stream: pairs of a name and the data."""
    events = []
    for block in written.decode("utf-8", "replace").split("\n\n"):
        lines = [line.partition(":")[::2] for line in block.splitlines() if line]
        if not lines:
            continue
        name = next((value.strip() for key, value in lines if key == "event"), None)
        data = "\n".join(value.removeprefix(" ") for key, value in lines if key == "data")
        try:
            events.append([name, json.loads(data)])
        except ValueError:
            events.append([name, data])
    return events


def conversation_of(item: Item) -> Any:
    """The role and the digest of every canister read, or the error."""

    def read() -> dict[str, Any]:
        canisters: Iterable[Any]
        if item.kind == "request":
            canisters = cannery.normalize_request(item.data, item.dialect).conversation
        elif item.kind == "response":
            canisters = cannery.normalize_response(item.data, item.dialect).canisters
        else:
            events = cannery.normalize_stream([item.data], item.dialect)
            canisters = cannery.fold(events).canisters
        return {"canisters": [[each.role.value, cannery.digest(each).hex()] for each in canisters]}

    return attempt(read)


def encode(value: Any) -> bytes:
    """A value as JSON; lone surrogates are escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_printable(value))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return f"integer {value}"
    return value


# --- freezing ------------------------------------------------------------------------------------


def frozen_line(item: Item, names: Iterable[str]) -> bytes:
    """Encode the line of one item."""
    body: dict[str, Any]
    try:
        body = {"text": item.data.decode()}
    except UnicodeDecodeError:
        body = {"base64": base64.b64encode(item.data).decode()}
    results = {
        label: attempt(lambda name=name, model=model: result_of(item, name, model))  # type: ignore[misc]
        for label, name, model in targets_of(item, names=names)
    }
    return encode(
        {
            "identifier": item.identifier,
            "dialect": item.dialect,
            "kind": item.kind,
            **body,
            "conversation": conversation_of(item),
            "results": results,
        }
    )


def freeze(options: argparse.Namespace) -> int:
    """Write the results of this checkout."""
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    names = cannery.dialect_names()
    items = chain(
        case_items(),
        corpus_items(options.corpus) if options.corpus else (),
        *map(listed_items, options.bodies),
        drawn_items(options.drawn) if options.drawn else (),
    )
    groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in items:
        if item.dialect in names and options.source in (None, item.dialect):
            groups[item.dialect, item.kind].append(item)
    for (dialect, kind), group in groups.items():
        began = time.process_time()
        with zstd.open(folder / f"{dialect}.{kind}.jsonl.zst", "wb") as file:
            for item in group:
                file.write(frozen_line(item, names) + b"\n")
        print(f"{dialect} {kind}: {len(group)} bodies, {time.process_time() - began:.0f} s")
    return 0


# --- comparing -----------------------------------------------------------------------------------


@dataclass
class Findings:
    """Differences by kind, with counts and a few examples of each."""

    examples: int
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    shown: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, place: str, before: Any, after: Any) -> None:
        """Add one difference."""
        self.counts[kind] += 1
        if len(self.shown[kind]) < self.examples:
            self.shown[kind].append(
                f"    {place}\n      before {_short(before)}\n      now    {_short(after)}"
            )

    def print(self) -> None:
        """Print the kinds, most frequent first."""
        for kind, count in sorted(self.counts.items(), key=lambda each: -each[1]):
            print(f"{count:6} {kind}")
            print("\n".join(self.shown[kind]))


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)})"


def compare(options: argparse.Namespace) -> int:
    """Translate the frozen bodies again and print the differences."""
    began = time.process_time()
    findings = Findings(options.examples)
    entries = list(_selected(options))
    clean = 0
    for entry in entries:
        before = sum(findings.counts.values())
        _compare_entry(entry, options, findings)
        clean += before == sum(findings.counts.values())
    findings.print()
    print(
        f"{clean} of {len(entries)} bodies without a difference, "
        f"{sum(findings.counts.values())} differences of {len(findings.counts)} kinds, "
        f"{time.process_time() - began:.0f} s of CPU"
    )
    return int(bool(findings.counts))


def _frozen_line(line: bytes) -> Frozen:
    """Decode a line of a frozen file; only the standard library can decode bodies with lone surrogates."""
    try:
        return _LINE.decode(line)
    except msgspec.DecodeError:
        value = json.loads(line)
        results = {label: msgspec.Raw(json.dumps(each)) for label, each in value["results"].items()}
        return Frozen(**{**value, "results": results})


def _selected(options: argparse.Namespace) -> list[Frozen]:
    """The frozen lines that the options select, or a sample of them."""
    wanted = re.compile(options.id or "")
    entries: list[Frozen] = []
    for file in sorted(options.folder.glob("*.jsonl.zst")):
        dialect, kind, *_ = file.name.split(".")
        if options.source not in (None, dialect) or options.kind not in (None, kind):
            continue
        with zstd.open(file, "rb") as lines:
            found = [line for line in map(_frozen_line, lines) if wanted.search(line.identifier)]
        if options.sample and len(found) > options.sample:
            found = random.Random(options.seed).sample(found, options.sample)  # noqa: S311 - no secret
        entries += found
    return entries


def _compare_entry(entry: Frozen, options: argparse.Namespace, findings: Findings) -> None:
    item = Item(entry.identifier, entry.dialect, entry.kind, entry.data)
    place = f"{item.dialect} {item.kind} {item.identifier}"
    if "conversation" not in options.ignore:
        _compare_conversation(entry.conversation, conversation_of(item), place, findings)
    for label, frozen in entry.results.items():
        name, _, model = label.partition("/")
        if options.target not in (None, name) or (options.own_model and model):
            continue
        result = attempt(lambda name=name, model=model: result_of(item, name, model or None))  # type: ignore[misc]
        now = encode(result)
        if now != bytes(frozen):
            judge = Judge(f"{place} -> {label}", item.dialect, name, options.ignore, findings)
            judge.compare(json.loads(bytes(frozen)), json.loads(now))


def _compare_conversation(before: Any, now: Any, place: str, findings: Findings) -> None:
    if before == now:
        return
    if "error" in before or "error" in now:
        kind = "reading: " + _error_kind(before, now)
        findings.add(kind, place, before.get("error", "read"), now.get("error", "read"))
        return
    olds, news = before["canisters"], now["canisters"]
    if [role for role, _ in olds] != [role for role, _ in news]:
        findings.add(
            "reading: other roles", place, [role for role, _ in olds], [role for role, _ in news]
        )
        return
    for index, (old, new) in enumerate(zip(olds, news, strict=True)):
        if old != new:
            findings.add(f"reading: other digest of {old[0]}", f"{place} [{index}]", old, new)


def _error_kind(before: dict[str, Any], now: dict[str, Any]) -> str:
    if "error" not in now:
        return "no error any more"
    name = now["error"].partition(":")[0]
    if "error" not in before:
        return f"new error {name}"
    old = before["error"].partition(":")[0]
    return f"other text of {name}" if old == name else f"error {old} became {name}"


class Judge:
    """Compares one result with the frozen one."""

    def __init__(
        self, place: str, source: str, target: str, ignored: list[str], findings: Findings
    ) -> None:
        self._place = place
        self._pair = f"{source} -> {target}"
        self._ignored = ignored
        self._findings = findings

    def compare(self, before: dict[str, Any], now: dict[str, Any], part: str = "") -> None:
        """Record every difference between two results."""
        if "error" in before or "error" in now:
            if before != now:
                kind = _error_kind(before, now)
                self._note("errors", f"{part}{kind}", before.get("error"), now.get("error"))
            return
        for column, old in before.items():
            if column == "whole":
                self.compare(old, now[column], "whole ")
            elif column in ("losses", "repairs"):
                self._reports(column, old, now[column], part)
            else:
                self._values(column, old, now[column], part)

    def _note(self, column: str, kind: str, before: Any, now: Any) -> None:
        if column not in self._ignored:
            self._findings.add(f"{self._pair}: {kind}", self._place, before, now)

    def _values(self, column: str, before: Any, now: Any, part: str) -> None:
        """Record the first differences of two JSON values, by their paths without indexes."""
        for path, old, new in list(differences(before, now))[:3]:
            if column == "aliases":
                path = ".".join(path.split(".")[:2])  # noqa: PLW2901 - names and ids are not kinds
            aspect = "spelling" if path.endswith(_RESPELLED) else column
            self._note(aspect, f"{part}{column} {_NUMBER.sub('[]', path)}", old, new)

    def _reports(self, column: str, before: list[Any], now: list[Any], part: str) -> None:
        """Compare losses or repairs: removed, added, moved, reworded."""
        gone = [each for each in before if each not in now]
        new = [each for each in now if each not in before]
        if not gone and not new:
            if before != now:
                self._note("order", f"{part}{column}: other order", before, now)
            return
        word = column[:-1] if column == "repairs" else "loss"
        for old in list(gone):
            match = self._partner(old, new)
            if match is not None:
                new.remove(match)
                for what in self._changed(old, match):
                    self._note(what, f"{part}{word} {old[0]}: other {what}", old, match)
            else:
                self._note(column, f"{part}{word} {old[0]}: gone", old, now)
        for each in new:
            self._note(column, f"{part}{word} {each[0]}: new", before, each)

    @staticmethod
    def _partner(old: list[str], new: list[list[str]]) -> list[str] | None:
        """The most similar report with the same code."""
        same = [each for each in new if each[0] == old[0]]
        return max(same, key=lambda each: sum(map(str.__eq__, each, old)), default=None)

    @staticmethod
    def _changed(old: list[str], new: list[str]) -> list[str]:
        """The aspects in which two reports of the same code differ; a repair has no severity."""
        aspects = ("severity", "path", "detail")[-len(old) + 1 :]
        pairs = zip(aspects, old[1:], new[1:], strict=True)
        return [aspect for aspect, before, now in pairs if before != now]


def differences(before: Any, now: Any, path: str = "$") -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two JSON values differ, with strict types."""
    if type(before) is not type(now):
        yield f"{path} ({_type(before)} became {_type(now)})", before, now
    elif isinstance(before, dict):
        for key in before.keys() | now.keys():
            if key not in now:
                yield f"{path}.{key} (gone)", before[key], None
            elif key not in before:
                yield f"{path}.{key} (new)", None, now[key]
            else:
                yield from differences(before[key], now[key], f"{path}.{key}")
    elif isinstance(before, list):
        if len(before) != len(now):
            yield f"{path} (other length)", before, now
            return
        for index, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif before != now:
        yield f"{path}{_RESPELLED if _same_json(before, now) else ''}", before, now


def _same_json(before: Any, now: Any) -> bool:
    """Whether two texts are JSON of the same value, as arguments of calls often are."""
    try:
        return isinstance(before, str) and differences_of_text(before, now) == []
    except ValueError:
        return False


def differences_of_text(before: str, now: str) -> list[tuple[str, Any, Any]]:
    """The differences between the values of two JSON texts."""
    return list(differences(json.loads(before), json.loads(now)))


def _type(value: Any) -> str:
    return "null" if value is None else type(value).__name__


# --- the command line ----------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    first = verbs.add_parser("freeze", help="write what this checkout gives")
    first.add_argument("folder", type=Path)
    first.add_argument("--corpus", type=Path, help="an archive or a folder of recorded bodies")
    first.add_argument("--bodies", type=Path, action="append", default=[], help="JSONL, see source")
    first.add_argument("--drawn", type=int, default=100, help="how many of each strategy")
    first.add_argument("--source", help="only this dialect")
    second = verbs.add_parser("compare", help="judge this checkout by what was frozen")
    second.add_argument("folder", type=Path)
    second.add_argument("--source", help="only bodies of this dialect")
    second.add_argument("--target", help="only translations to this dialect")
    second.add_argument("--kind", choices=KINDS)
    second.add_argument("--sample", type=int, help="at most so many bodies of each file")
    second.add_argument("--seed", type=int, default=1, help="which sample")
    second.add_argument("--id", help="only bodies whose id matches this regular expression")
    second.add_argument("--own-model", action="store_true", help="without the models given by hand")
    second.add_argument("--examples", type=int, default=2, help="how many of each kind are shown")
    second.add_argument(
        "--ignore",
        action="append",
        default=[],
        choices=(
            *("conversation", "body", "losses", "repairs", "aliases", "events", "errors"),
            *("severity", "path", "detail", "order", "spelling"),
        ),
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run one of the two verbs; comparing returns 1 if there is a difference."""
    options = parse(arguments)
    return freeze(options) if options.verb == "freeze" else compare(options)


if __name__ == "__main__":
    sys.exit(main())
