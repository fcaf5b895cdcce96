"""The page of dialects and features says what translation does now."""

import cannery
from scripts import write_dialects


def test_the_page_is_what_the_script_writes():
    written = write_dialects.PAGE.read_text(encoding="utf-8")

    assert written == write_dialects.page(), "run `make docs`"


def test_every_feature_is_said_by_some_dialect():
    for name, request in write_dialects.FEATURES.items():
        said = [
            dialect
            for dialect in cannery.dialect_names()
            if not cannery.nativize_request(request, dialect, policy="allow").losses
        ]
        assert said, name
