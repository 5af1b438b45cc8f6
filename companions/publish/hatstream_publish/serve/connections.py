"""Connections of the server: whoever says nothing for long, or reads nothing, keeps no place from others."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

ASKED_S, ANSWERED_S = 15.0, 600.0
"""Most seconds for a whole question, from the connection or the answer before it, and for its answer on a slow line."""


class BoundedConnection(H11Protocol):
    """uvicorn itself bounds only the wait between an answer and the first byte of the next question."""

    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(ASKED_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._deadline.cancel()
        self._deadline = self.loop.call_later(ASKED_S, self._look)
        super().on_response_complete()

    def _look(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
        else:
            self._deadline = self.loop.call_later(ANSWERED_S, self.transport.abort)
