"""The gateway's configuration for other verbs; None without the gateway's packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct


class GatewaySettings(Struct, frozen=True):
    """The settings, the file they come from, and the line of each."""

    path: str | None
    settings: Any
    lines: dict[Any, int]
    rows: tuple[Any, ...]


def load_gateway_settings(chosen: str | None = None) -> GatewaySettings | None:
    """Load the settings of a file or of the default place; None if the gateway is not installed."""
    try:
        from cannery.gateway.serving import default_configuration
        from cannery.gateway.settings import load_settings
        from cannery.gateway.toml_lines import find_lines
        from cannery.gateway.upstreams import DEFAULT_ROWS
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cannery"):
            raise
        return None
    path = chosen or default_configuration()
    settings = load_settings(path)
    lines = {} if path is None else find_lines(Path(path).read_text(encoding="utf-8"))
    named = {row.name for row in settings.upstreams}
    rows = (*settings.upstreams, *(row for row in DEFAULT_ROWS if row.name not in named))
    return GatewaySettings(None if path is None else str(path), settings, lines, rows)
