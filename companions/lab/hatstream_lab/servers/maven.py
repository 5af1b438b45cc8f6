"""Class paths of servers, fetched by Maven and cached."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

CACHE_VARIABLE = "HATSTREAM_CACHE"
CACHE = Path(".cache")
JAVA = 17

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"


class MissingTool(Exception):
    """Missing program; the message names it and its use."""


def cache_folder() -> Path:
    """Returns the cache folder: $HATSTREAM_CACHE, or .cache."""
    return Path(os.environ.get(CACHE_VARIABLE) or CACHE).absolute()


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
    with _alone(folder / ".lock"):
        if not (cache.exists() and all(map(os.path.exists, cache.read_text().split(os.pathsep)))):
            _fetch(pom, folder, cache, pom.with_name(f"{name}-jars.sha256").read_text())
    return cache.read_text()


def _fetch(pom: Path, folder: Path, cache: Path, sums: str) -> None:
    """Has Maven download a server's jars, and writes their class path to `cache`.

    sums: expected SHA-256 of each jar, a line each. Raises RuntimeError.
    """
    unchecked = cache.with_suffix(".part")
    command = ["mvn", "--batch-mode", "--quiet", f"--file={pom}", f"-Dmaven.repo.local={folder / 'maven'}", _PLUGIN]
    command += ["-DincludeScope=runtime", f"-Dmdep.outputFile={unchecked}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"Maven could not fetch what {pom.name} names:\n{(result.stdout + result.stderr)[-2_000:]}")
    _check_jars([Path(jar) for jar in unchecked.read_text().strip().split(os.pathsep)], sums)
    unchecked.replace(cache)


def _check_jars(jars: Sequence[Path], sums: str) -> None:
    """Raises RuntimeError unless jars match their checksums."""
    expected = {name: digest for digest, name in (line.split("  ") for line in sums.splitlines())}
    digests = {jar.name: sha256(jar.read_bytes()).hexdigest() for jar in jars}
    if wrong := sorted({name for name, _ in digests.items() ^ expected.items()}):
        raise RuntimeError(f"{len(wrong)} jars are not those of our checksums, such as {wrong[0]}: none is run")


def compiled(sources: Sequence[Path], classes: str) -> Path:
    """Compiles sources once; returns the folder. Raises RuntimeError."""
    folder = cache_folder() / "engines"
    digest = sha256(b"".join(source.read_bytes() for source in sources) + classes.encode()).hexdigest()[:12]
    folder_of_classes = folder / f"classes-{digest}"
    with _alone(folder / ".lock"):
        if not folder_of_classes.exists():
            partial_folder = folder_of_classes.with_suffix(".part")
            command = ["javac", "-nowarn", "-d", str(partial_folder), "-cp", classes, *map(str, sources)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise RuntimeError(f"Java's sources were not compiled:\n{result.stderr[-2_000:]}")
            partial_folder.replace(folder_of_classes)
    return folder_of_classes


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Lets one process in at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
