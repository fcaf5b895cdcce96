"""Imports chats of other programs, data sets and transcripts into a store.

source
    one file, or one member of an archive (``source_files``, ``archives``, ``sources``, ``values``, ``databases``)
format
    the file format of a program: a module of ``formats``, found by its name
node
    one message of a source, with the id of the message before it: chats that were edited or regenerated are trees
unknown record
    a record that an importer does not interpret: counted, and stored with the message that follows it
data set
    a format whose records are examples: each stays a conversation of its own (``destinations``)

Importing is idempotent: a store recognises a history that it contains (``storage.recognition``) and a row by its
content, so importing twice adds nothing, and a newer export adds the new messages.
"""

from cannery.importers.contract import Detection, Format, Imported, Node, Sample, Unknown
from cannery.importers.detection import detect_format, find_format, format_names
from cannery.importers.discovery import Discovered, find_folders
from cannery.importers.filing import ImportSummary, check_format, import_into
from cannery.importers.source_files import open_sources
from cannery.importers.sources import Source
from cannery.importers.trees import branches, histories
from cannery.importers.values import Record

__all__ = [
    "Detection",
    "Discovered",
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
    "find_folders",
    "find_format",
    "format_names",
    "histories",
    "import_into",
    "open_sources",
]
