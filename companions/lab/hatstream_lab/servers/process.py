"""Runs a server process, with its output and readiness."""

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

LOOPBACK = "127.0.0.1"
STOP_S, READY_S = 20.0, 300.0  # longest waits for a server's end, and for its first answer


class ServerError(Exception):
    """Server that ended or was late; shows its output."""


class Server:
    """A child process. log: the file that takes its output."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command, self._log = list(command), log
        with log.open("ab") as output:
            # In a session of its own: a terminal's Ctrl-C is for us, who end the server when we are done with it.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )

    def wait(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Waits until the server is ready. Raises ServerError."""
        until = time.monotonic() + seconds
        while not is_ready():
            if self._process.poll() is not None:
                raise self._failure(f"ended with code {self._process.returncode}")
            if time.monotonic() > until:
                self.stop()
                raise self._failure(f"was not ready after {seconds:.0f} s")
            time.sleep(0.05)

    def said(self, words: str) -> bool:
        """Checks the output for some words."""
        return words in self._log.read_text(errors="replace")

    def stop(self) -> None:
        """Asks the process to end; kills it after STOP_S."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def _failure(self, event: str) -> ServerError:
        """Makes the error of an event, with the last lines of output."""
        lines = self._log.read_text(errors="replace").splitlines()[-15:]
        return ServerError("\n".join([f"{self._command[0]} (output in {self._log}) {event}:", *lines]))


class LocalServer:
    """`with LocalServer(folder):` runs a server at `address` (`host:port`). Raises ServerError."""

    ports = 1

    def __init__(self, folder: Path) -> None:
        self._folder, self._ports = folder, free_ports(self.ports)
        self._server: Server | None = None

    @property
    def address(self) -> str:
        """The server's `host:port`."""
        return f"{LOOPBACK}:{self._ports[0]}"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stops the server, keeping its data."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def run(self, command: Sequence[str], log: str, is_ready: Callable[[], bool] | None = None) -> None:
        """Starts a command and waits until it, or by default its port, answers."""
        self._server = Server(command, self._folder / log)
        self._server.wait(is_ready or (lambda: is_open(self._ports[0])), READY_S)


def free_ports(count: int) -> list[int]:
    """Finds ports that nobody listened on a moment ago."""
    held = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports: list[int] = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports


def is_open(port: int) -> bool:
    """Checks whether the port accepts connections."""
    with socket.socket() as client:
        client.settimeout(0.5)
        return client.connect_ex((LOOPBACK, port)) == 0
