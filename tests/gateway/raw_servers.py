"""Servers that answer each request with whatever bytes a test wants."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Raw:
    """A server that does with each connection what it is told, and counts them."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._behave = behave
        self.asked = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self.socket.accept()
            except OSError:
                return
            with taken:
                taken.recv(65536)
                self.asked += 1
                self._behave(taken)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()
