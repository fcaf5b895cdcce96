"""What people bring: chats of other programs, data sets and transcripts, taken into a store.

source
    one file, or one member of a zip (``sources``)
format
    how a program writes its chats: a module of ``formats``, found by its name
node
    one message of a source, with the message before it: chats that were edited or regenerated are trees
unknown record
    what an importer does not understand: counted, and kept as it is

Importing is idempotent: a store recognises a history that it holds (``storage.recognition``), so importing twice adds
nothing, and a newer export adds what is new.
"""

from cannery.importers.contract import Detection, Format, Imported, Node, Sample, Unknown
from cannery.importers.detection import detect_format, find_format, format_names
from cannery.importers.filing import ImportSummary, check_format, import_into
from cannery.importers.sources import Record, Source, open_sources
from cannery.importers.trees import branches, histories

__all__ = [
    "Detection",
    "Format",
    "ImportSummary",
    "Imported",
    "Node",
    "Record",
    "Sample",
    "Source",
    "Unknown",
    "branches",
    "check_format",
    "detect_format",
    "find_format",
    "format_names",
    "histories",
    "import_into",
    "open_sources",
]
