"""Runs Beam's Flink job server on this machine.

Two classes of Beam are replaced (java/): one keeps it on 127.0.0.1, where as Beam ships it anybody on the network may
send it a program to run; the other keeps a source's polls from filling its memory.
"""

import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import requests

from hatstream_lab.servers.process import LOOPBACK, LocalServer, class_path, compiled

ANSWER_S = 5.0
ENDED = ("FINISHED", "CANCELED", "FAILED")
JAVA = ("java", "-Xmx1g", "-XX:+UseSerialGC", "--add-opens=java.base/java.util=ALL-UNNAMED")
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""For a Java machine that is busy for seconds: its second compiler takes more than it brings."""


class JobServer(LocalServer):
    """Flink job server. Raises MissingTool or ServerError.

    rest: `host:port` of the cluster that runs the jobs; by default an embedded one with `slots`.
    """

    ports = 3  # free `_ports`: of jobs, of their files, and of an embedded cluster

    def __init__(self, folder: Path, slots: int = 2, rest: str | None = None) -> None:
        super().__init__(folder)
        self._slots, self._is_embedded = slots, rest is None
        self.rest = rest or f"{LOOPBACK}:{self._ports[2]}"  # of the embedded cluster, see `ports`

    def start(self) -> None:
        """Starts the job server and waits until it answers."""
        jar = str(job_server_jar(self._folder / "job-server.jar"))
        # An embedded cluster runs jobs in this Java process, too long for SHORT_LIVED, which makes code run slower.
        flags, master = [SHORT_LIVED], [f"--flink-master={self.rest}"]
        if self._is_embedded:  # a cluster that runs already keeps its own configuration
            configuration = self._folder / "conf"
            configuration.mkdir(exist_ok=True)
            text = Path(__file__).with_name("flink-config.yaml").read_text()
            facts = {"host": LOOPBACK, "rest": self._ports[2], "slots": self._slots, "folder": self._folder.as_uri()}
            (configuration / "config.yaml").write_text(text.format(**facts))
            flags, master = [], ["--flink-master=[local]", f"--flink-conf-dir={configuration}"]
        command = [*JAVA, *flags, "-jar", jar, *master, f"--job-host={LOOPBACK}", f"--job-port={self._ports[0]}"]
        command += [f"--artifact-port={self._ports[1]}", f"--artifacts-dir={self._folder / 'artifacts'}"]
        self.run([*command, "--expansion-port=-1"], "job-server.log")  # -1: without an expansion service

    def stop(self) -> None:
        """Cancels all jobs and stops the job server."""
        with suppress(OSError), requests.Session() as session:  # one that does not answer ends with its server
            session.trust_env = False  # no proxy stands before this machine
            for job in session.get(f"http://{self.rest}/jobs", timeout=ANSWER_S).json()["jobs"]:
                if job["status"] not in ENDED:
                    session.patch(f"http://{self.rest}/jobs/{job['id']}?mode=cancel", timeout=ANSWER_S)
        super().stop()


def job_server_jar(path: Path) -> Path:
    """Writes the job server's jar, with our classes."""
    others = " ".join(Path(jar).as_uri() for jar in class_path("flink").split(os.pathsep))
    # The jar's own classes come before those of the class path, and so replace them.
    main = "org.apache.beam.runners.flink.FlinkJobServerDriver"
    lines = ("Manifest-Version: 1.0", f"Main-Class: {main}", "Add-Opens: java.base/java.util", f"Class-Path: {others}")
    # A manifest's lines have at most 72 bytes; a continuation begins with a space.
    folded = ("\n ".join(line[start : start + 70] for start in range(0, len(line), 70)) for line in lines)
    ours = job_server_classes()
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "".join(f"{line}\n" for line in folded))
        for class_file in sorted(ours.rglob("*.class")):
            jar.write(class_file, class_file.relative_to(ours))
    return path


def job_server_classes() -> Path:
    """Compiles our classes. Raises MissingTool or RuntimeError."""
    return compiled(sorted(Path(__file__).with_name("java").glob("*.java")), class_path("flink"))


_PROGRAM = "import hatstream; from pipelines.runs.flink.worker_pool import main; main()"


class WorkerPool(LocalServer):
    """Beam worker pool at `pool.address`. Raises ServerError."""

    def start(self) -> None:
        """Starts the pool and waits until it answers."""
        self.run([sys.executable, "-P", "-c", _PROGRAM, "--address", self.address], "pool.log")


@contextmanager
def local_servers(folder: Path, parallelism: int = 1) -> Iterator[tuple[JobServer, WorkerPool]]:
    """Starts a job server and a worker pool. Raises MissingTool or ServerError."""
    with JobServer(folder / "flink", slots=parallelism) as flink, WorkerPool(folder / "pool") as pool:
        yield flink, pool


if __name__ == "__main__":  # fetches what servers run from, so that no test or demonstration waits for it
    print("Fetching the jars of Kafka and Flink (about 200 MB, once) ...", flush=True)
    class_path("kafka")
    job_server_classes()
