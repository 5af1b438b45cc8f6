"""A hostile world from a seed: specifications, files, servers, ledgers, caches, faults, and commands that meet them.

`python -m tests.hostile SECONDS [SEED]` goes on from a seed, a random one without, and prints what breaks a law. What
is mended then is added to `FOUND` in tests/hostile/test_world.py.
"""

import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests import city, fusion_city, levels_city
from tests.hostile import servers
from tests.hostile.laws import Broken, Done, Values, check, ran
from tests.hostile.mutations import ARGUMENTS, mutated_bytes, mutated_toml
from transforms.failpoints import NAMES, VARIABLE

STEPS = 8
FORMATS = ("csv", "jsonl", "parquet", "avro")
DAYS = ("2022-01-01", "2022-01-02", "2022-01-03")
STATE = ("ledger.sqlite", "ledger.key", "ledger.key.head")
FUSION = fusion_city.spec(
    "two services",
    {"maps": fusion_city.SERVICES["maps"], "weather": 'mechanism = "sr", epsilon = 2'},
)


class World:
    """A city in a folder with an account of its own. cases: commands that were run."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.choose, self.folder, self.values, self.cases = random.Random(seed), folder, Values(), 0
        self._is_levels = self.choose.random() < 0.4
        self._kind = self.choose.choice(FORMATS)
        source = levels_city if self._is_levels else city
        self._spec = source.SPEC.replace('layout = "csv"', f'layout = "{self._kind}"')
        self._rows = [line.strip().split(",") for line in source.rows(DAYS[:2])]
        (folder / "spec.toml").write_text(self._spec)
        (folder / "fusion.toml").write_text(FUSION)
        (folder / "feed").mkdir()
        self._write_feed(folder / "feed" / f"a.{self._kind}")

    def live(self, steps: int = STEPS) -> None:
        """Raises Broken, which names the command."""
        self._run(["init", "--spec", self._at("spec.toml"), *self._account()])
        steps_of = [self._release, self._release, self._faulty, self._look, self._specify, self._arguments, self._other]
        for _ in range(steps):
            self.choose.choice(steps_of)()

    def _run(self, arguments: list[str], **environment: str) -> Done:
        self.cases += 1
        done = ran(arguments, environment)
        try:
            check(arguments, done, environment)
            self.values.look(self.folder / "out")
        except Broken as broken:
            again = "" if done.code is None else ran(arguments, environment | {"HATSTREAM_DEBUG": "1"}).err[-1_500:]
            raise Broken(f"{broken}: {environment} hatstream {arguments}\n{done.err[-600:]}\n{again}") from None
        return done

    def _at(self, name: str) -> str:
        return str(self.folder / name)

    def _account(self) -> list[str]:
        return ["--ledger", self._at("ledger.sqlite")]

    def _write_feed(self, path: Path) -> None:
        """The city's rows in its format."""
        names = city.HEADER.strip().split(",")
        columns = {name: list(column) for name, column in zip(names, zip(*self._rows, strict=True), strict=True)}
        columns |= {name: [float(value) for value in columns[name]] for name in ("lat", "lon", "v")}
        if self._kind == "csv":
            path.write_text(city.HEADER + "".join(",".join(row) + "\n" for row in self._rows))
        elif self._kind == "parquet":
            pq.write_table(pa.table(columns), path, row_group_size=20)
        else:
            rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            if self._kind == "jsonl":
                path.write_text("".join(json.dumps(row) + "\n" for row in rows))
                return
            fields = [{"name": name, "type": "double" if name in ("lat", "lon", "v") else "string"} for name in names]
            with path.open("wb") as file:
                fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, rows)

    def _release(self) -> None:
        """Of some days, from a feed that may be damaged, by a process that may be killed."""
        feed, path = self.folder / "feed", self.folder / "feed" / f"b.{self._kind}"
        kind = self.choose.randrange(4)
        if kind == 0:
            path.write_bytes(mutated_bytes(self.choose, (feed / f"a.{self._kind}").read_bytes()))
        elif kind == 1:
            path.write_bytes(self.choose.choice([b"", b"<html>no</html>", b"\x00" * 5_000, os.urandom(0)]))
        first, last = sorted((self.choose.choice(DAYS), self.choose.choice(DAYS)))
        more = [name for name in ("--skip-unreadable", "--allow-empty", "--by-date") if self.choose.random() < 0.15]
        killed = {VARIABLE: f"{self.choose.choice(NAMES)}:{self.choose.randint(1, 4)}"}
        self._run(self._releasing(first, last) + more, **(killed if self.choose.random() < 0.35 else {}))
        path.unlink(missing_ok=True)

    def _releasing(self, first: str, last: str) -> list[str]:
        return [
            "release", "--spec", self._at("spec.toml"), "--input", self._at("feed"), "--from", first, "--to", last,
            "--output", self._at("out"), "--formats", "csv", "--json", *self._account(),
        ]  # fmt: skip

    def _faulty(self) -> None:
        """A command beside a file of the state that is lost, damaged or old; the file is put back afterwards."""
        there = [path for path in self.folder.glob("ledger*") if path.is_file()]
        path = self.choose.choice(there)
        whole, mode = path.read_bytes(), path.stat().st_mode
        kind = self.choose.randrange(5)
        if kind == 0:
            path.unlink()
        elif kind == 1:
            path.unlink()
            path.mkdir()
        elif kind == 2:
            path.chmod(0o644)
        else:
            path.write_bytes(mutated_bytes(self.choose, whole))
        self.choose.choice([self._look, self._release, lambda: self._run(self._releasing(DAYS[0], DAYS[1]))])()
        if path.is_dir():
            shutil.rmtree(path)
        path.write_bytes(whole)
        path.chmod(mode)

    def _look(self) -> None:
        days = ["--from", DAYS[0], "--to", self.choose.choice(DAYS)]
        spec, account = ["--spec", self._at("spec.toml")], self._account()
        backup = self._at("backup")
        looks = [
            ["ledger", "show", *account], ["ledger", "verify", *account], ["ledger", "missing", *spec, *days, *account],
            ["ledger", "backup", "--to", backup, *account],
            ["ledger", "restore", "--from", backup, "--results", self._at("feed"), *account],
            ["report", *spec, "--output", self._at("report.html"), *account],
            ["map", "--input", self._at("out"), "--output", self._at("map.html")],
            ["estimate", *spec, *days, "--output", self._at("estimates"), *account],
            ["publish", *spec, "--input", self._at("out"), "--publisher", "x", "--output", self._at("open"), *account],
            ["release", *self._releasing(*DAYS[:2])[1:], "--check-input"],
        ]  # fmt: skip
        self._run(self.choose.choice(looks) + (["--json"] if self.choose.random() < 0.5 else []))

    def _specify(self) -> None:
        """A specification that is damaged, by all that read one."""
        fusion = self.choose.random() < 0.15
        text = FUSION if fusion else self.choose.choice([self._spec, levels_city.SPEC, city.SPEC, city.AUSTIN])
        (self.folder / "bad.toml").write_bytes(mutated_toml(self.choose, text))
        spec = ["--spec", self._at("bad.toml")]
        if fusion:
            self._run(["fuse", *spec, "--input", self._at("feed"), "--output", self._at("fused")])
            return
        done = self._run(["spec", "check", self._at("bad.toml")])
        if done.code == 0:
            self._run(["init", *spec, "--region-is-public", "--ledger", self._at("other.sqlite")])
            self._run(
                [*self._releasing(*DAYS[:2]), *spec, "--ledger", self._at("other.sqlite"), "--output", self._at("o")]
            )
            if self.choose.random() < 0.3:
                self._run(["plan", *spec])

    def _arguments(self) -> None:
        """A command with one argument that is none."""
        spec, days = ["--spec", self._at("spec.toml")], ["--from", DAYS[0], "--to", DAYS[1]]
        commands = [
            self._releasing(*DAYS[:2]),
            ["ledger", "missing", *spec, *days, *self._account()],
            ["init", *spec, *self._account()],
            ["map", "--input", self._at("out"), "--output", self._at("map.html")],
            ["estimate", *spec, *days, "--output", self._at("estimates"), *self._account()],
        ]
        given = self.choose.choice(commands)
        places = [at for at in range(1, len(given)) if given[at - 1].startswith("--") and given[at - 1] != "--json"]
        at = self.choose.choice(places)
        if given[at - 1] in ("--output", "--ledger"):  # these would be made in the folder where the tests run
            value = self.choose.choice(["", "/dev/null", "/dev/null/x", self._at("feed"), self._at("spec.toml")])
        else:
            value = self.choose.choice(ARGUMENTS)
        self._run([*given[:at], value, *given[at + 1 :]])

    def _other(self) -> None:
        """Drafts, maps of damaged results, and addresses that answer with what none should."""
        sample = self.folder / "sample" / f"s.{self.choose.choice(FORMATS)}"
        sample.parent.mkdir(exist_ok=True)
        whole = (self.folder / "feed" / f"a.{self._kind}").read_bytes()
        results = sorted((self.folder / "out").glob("hats-*.csv"))
        kind = self.choose.randrange(10)
        if kind < 4:
            sample.write_bytes(mutated_bytes(self.choose, whole))
            self._run(["spec", "new", "--sample", str(sample)])
        elif kind < 7 and results:
            damaged = sample.with_name(self.choose.choice(results).name)
            damaged.write_bytes(mutated_bytes(self.choose, results[0].read_bytes()))
            self._run(["map", "--input", str(damaged), "--output", self._at("map.html")])
        elif kind == 7:
            self._collect()
        else:
            (self.folder / "x.backup").write_bytes(mutated_bytes(self.choose, whole))
            self._run(["ledger", "restore", "--from", self._at("x.backup"), "--nothing-since", *self._account()])
        shutil.rmtree(sample.parent)

    def _collect(self) -> None:
        odd = ["http://[::1", "//", "http://127.0.0.1:{port}/again", "file:///etc/passwd", "http://a:99999/", "\x7f"]
        answers: list[Callable[..., object]] = [
            servers.redirect(self.choose.choice(odd)),
            servers.answer(
                self.choose.choice([200, 204, 304, 418, 500, 999]), mutated_bytes(self.choose, b"\n\x0d\n\x032.0")
            ),
            self.choose.choice([*servers.ENDLESS.values()]),
        ]
        with servers.Service() as service:
            service.answers = [self.choose.choice(answers)]
            asked = ["collect", "--url", service.url, "--every", "1", "--for", "1", "--output", self._at("kept")]
            if service.answers[0] in servers.ENDLESS.values():
                return  # ends at 60 s: tests/pipelines/advice/test_poll.py asks these with another deadline
            self._run(asked)


def lived(seed: int, steps: int = STEPS) -> int:
    """The number of commands of a whole life. Raises Broken."""
    with tempfile.TemporaryDirectory(prefix="hatstream-world-") as folder:
        world = World(seed, Path(folder))
        world.live(steps)
        return world.cases


def fresh(seconds: float, seed: int | None = None) -> Iterator[tuple[int, int, str]]:
    """Seed, commands, and what broke (or nothing), of one world after the other."""
    until, at = time.monotonic() + seconds, random.SystemRandom().randrange(1 << 40) if seed is None else seed
    while time.monotonic() < until:
        try:
            yield at, lived(at), ""
        except Broken as broken:
            yield at, 0, str(broken)
        at += 1
