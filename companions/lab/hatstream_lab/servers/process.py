"""Runs a server process, from what Maven fetched, with its output and readiness."""

import fcntl
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Self

LOOPBACK = "127.0.0.1"
STOP_S, READY_S = 20.0, 300.0  # longest waits for a server's end, and for its first answer


class ServerError(Exception):
    """Server that ended or was late; shows its output."""


class Server:
    """A child process. log: the file that takes its output."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Starts the process. environment: its variables; None for those of this process."""
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

    ports = 1  # number of free `_ports` that it needs

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
    servers = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports: list[int] = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def is_open(port: int) -> bool:
    """Checks whether the port accepts connections."""
    with socket.socket() as client:
        client.settimeout(0.5)
        return client.connect_ex((LOOPBACK, port)) == 0


JAVA = 17


class MissingTool(Exception):
    """Missing program; the message names it and its use."""


def cache_folder() -> Path:
    """Returns the cache folder: $HATSTREAM_CACHE, or .cache."""
    return Path(os.environ.get("HATSTREAM_CACHE") or ".cache").absolute()


def missing_tools() -> list[str]:
    """Lists missing programs that servers need."""
    missing, version = [], None
    if shutil.which("java") and shutil.which("javac"):
        result = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
        version = re.search(r"javac (\d+)", result.stdout + result.stderr)
    if version is None or int(version[1]) < JAVA:
        missing.append(f"a JDK {JAVA} or newer (`java` and `javac` on the PATH; Debian: openjdk-{JAVA}-jdk-headless)")
    if shutil.which("mvn") is None:
        missing.append("Maven (`mvn` on the PATH; Debian: maven)")
    return missing


def class_path(name: str) -> str:
    """Builds a server's class path; Maven fetches it once.

    Raises MissingTool, or RuntimeError with the end of Maven's output, or for a jar not in `<name>-jars.sha256`.
    """
    if missing := missing_tools():
        raise MissingTool("; ".join(missing))
    pom = Path(__file__).with_name(f"{name}-pom.xml")
    folder = cache_folder() / "engines"
    folder.mkdir(parents=True, exist_ok=True)
    cache = folder / f"{name}-{sha256(pom.read_bytes()).hexdigest()[:12]}.classpath"
    with _hold_lock(folder / ".lock"):
        if cache.exists() and all(map(os.path.exists, cache.read_text().split(os.pathsep))):
            return cache.read_text()
        unchecked = cache.with_suffix(".part")
        command = ["mvn", "--batch-mode", "--quiet", f"--file={pom}", f"-Dmaven.repo.local={folder / 'maven'}"]
        command += ["org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"]
        command += ["-DincludeScope=runtime", f"-Dmdep.outputFile={unchecked}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            output = (result.stdout + result.stderr)[-2_000:]
            raise RuntimeError(f"Maven could not fetch what {pom.name} names:\n{output}")
        jars = [Path(jar) for jar in unchecked.read_text().strip().split(os.pathsep)]
        _check_jars(jars, pom.with_name(f"{name}-jars.sha256").read_text())
        unchecked.replace(cache)
    return cache.read_text()


def _check_jars(jars: Sequence[Path], sums: str) -> None:
    """Raises RuntimeError unless jars match `sums`, lines of SHA-256 and name."""
    expected = {name: digest for digest, name in (line.split("  ") for line in sums.splitlines())}
    digests = {jar.name: sha256(jar.read_bytes()).hexdigest() for jar in jars}
    if wrong := sorted({name for name, _ in digests.items() ^ expected.items()}):
        raise RuntimeError(f"{len(wrong)} jars are not those of our checksums, such as {wrong[0]}: none is run")


def compiled(sources: Sequence[Path], classes: str) -> Path:
    """Compiles Java sources once; returns their classes' folder. classes: class path. Raises RuntimeError."""
    folder = cache_folder() / "engines"
    digest = sha256(b"".join(source.read_bytes() for source in sources) + classes.encode()).hexdigest()[:12]
    folder_of_classes = folder / f"classes-{digest}"
    with _hold_lock(folder / ".lock"):
        if not folder_of_classes.exists():
            partial_folder = folder_of_classes.with_suffix(".part")
            command = ["javac", "-nowarn", "-d", str(partial_folder), "-cp", classes, *map(str, sources)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise RuntimeError(f"Java's sources were not compiled:\n{result.stderr[-2_000:]}")
            partial_folder.replace(folder_of_classes)
    return folder_of_classes


@contextmanager
def _hold_lock(lock: Path) -> Iterator[None]:
    """Lets one process in at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
