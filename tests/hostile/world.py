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
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from companions.city.tests.feeds import write as write_timetable
from hatstream_lab.servers.postgres import Postgres, missing_programs, postgres_server
from tests import city, levels_city
from tests.hostile import lab, ledgers, standing
from tests.hostile.lab import FUSION
from tests.hostile.laws import DEADLINE_S, Broken, Done, Meanwhile, Values, check, ran
from tests.hostile.mutations import ARGUMENTS, mutated_bytes, mutated_toml
from transforms.failpoints import NAMES, VARIABLE

STEPS = 8
FORMATS = ("csv", "jsonl", "parquet", "avro")
DAYS = ("2022-01-01", "2022-01-02", "2022-01-03")
OTHERS = (standing.collect, standing.publish, standing.preview, standing.stream, lab.perturb, lab.evaluate)


class World:
    """A city in a folder with an account of its own. cases: commands that were run. server: where its ledger may be."""

    def __init__(self, seed: int, folder: Path, server: Postgres | None = None) -> None:
        self.choose, self.folder, self.values, self.cases = random.Random(seed), folder, Values(), 0
        self.server = server if server is not None and self.choose.random() < 0.25 else None
        self.url = self.path("ledger.sqlite") if self.server is None else self.server.new_database()
        self._is_levels = self.choose.random() < 0.4
        self._kind = self.choose.choice(FORMATS)
        source = levels_city if self._is_levels else city
        self._spec = source.SPEC.replace('layout = "csv"', f'layout = "{self._kind}"')
        self.lines = source.rows(DAYS[:2])
        self._rows = [line.strip().split(",") for line in self.lines]
        (folder / "spec.toml").write_text(self._spec)
        (folder / "fusion.toml").write_text(FUSION)
        (folder / "feed").mkdir()
        self._write_feed(folder / "feed" / f"a.{self._kind}")

    def live(self, steps: int = STEPS) -> None:
        """Raises Broken, which names the command."""
        self.run(["init", "--spec", self.path("spec.toml"), *self.account])
        steps_of = [self._release, self._release, self._faulty, self._look, self._specify, self._arguments, self._other]
        steps_of += [self._full_disk, *(partial(step, self) for step in OTHERS)]
        for _ in range(steps):
            self.choose.choice(steps_of)()

    def run(
        self,
        arguments: list[str],
        deadline_s: float = DEADLINE_S,
        meanwhile: Meanwhile | None = None,
        **environment: str,
    ) -> Done:
        """Raises Broken, which names the command."""
        self.cases += 1
        done = Done(0, "", "")
        try:
            done = ran(arguments, environment, deadline_s, meanwhile)
            check(arguments, done, environment)
            self.values.look(self.folder / "out")
        except Broken as broken:
            again = self._again(arguments, environment) if done.code is not None and meanwhile is None else ""
            raise Broken(f"{broken}: {environment} hatstream {arguments}\n{done.err[-600:]}\n{again}") from None
        return done

    @staticmethod
    def _again(arguments: list[str], environment: dict[str, str]) -> str:
        """Where an internal error was."""
        return ran(arguments, environment | {"HATSTREAM_DEBUG": "1"}).err[-1_500:]

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def account(self) -> list[str]:
        return ["--ledger", self.url, *([] if self.server is None else ["--key", self.path("ledger.key")])]

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
        if self.server is not None and self.choose.random() < 0.3:
            ledgers.interrupted(self, self.releasing(first, last) + more)
        else:
            self.run(self.releasing(first, last) + more, **(killed if self.choose.random() < 0.35 else {}))
        path.unlink(missing_ok=True)

    def releasing(self, first: str, last: str) -> list[str]:
        return [
            "release", "--spec", self.path("spec.toml"), "--input", self.path("feed"), "--from", first, "--to", last,
            "--output", self.path("out"), "--formats", "csv", "--json", *self.account,
        ]  # fmt: skip

    def _faulty(self) -> None:
        """A command beside a file of the state that is lost, damaged or old; the file is put back afterwards."""
        beside = self.choose.choice([self._look, self._release, lambda: self.run(self.releasing(DAYS[0], DAYS[1]))])
        if self.server is not None and self.choose.random() < 0.6:
            ledgers.damaged(self, beside)
            return
        path = self.choose.choice([path for path in sorted(self.folder.glob("ledger*")) if path.is_file()])
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
        beside()
        if path.is_dir():
            shutil.rmtree(path)
        path.write_bytes(whole)
        path.chmod(mode)

    def _full_disk(self) -> None:
        day = self.choose.choice(DAYS)
        ledgers.on_a_full_disk(self, self.choose.choice([self.releasing(day, day), self.choose.choice(self._looks())]))

    def _look(self) -> None:
        self.run(self.choose.choice(self._looks()) + (["--json"] if self.choose.random() < 0.5 else []))

    def _looks(self) -> list[list[str]]:
        days = ["--from", DAYS[0], "--to", self.choose.choice(DAYS)]
        spec, account = ["--spec", self.path("spec.toml")], self.account
        backup = self.path("backup")
        return [
            ["ledger", "show", *account], ["ledger", "verify", *account], ["ledger", "missing", *spec, *days, *account],
            ["ledger", "backup", "--to", backup, *account],
            ["ledger", "restore", "--from", backup, "--results", self.path("feed"), *account],
            ["report", *spec, "--output", self.path("report.html"), *account],
            ["map", "--input", self.path("out"), "--output", self.path("map.html")],
            ["estimate", *spec, *days, "--output", self.path("estimates"), *account],
            ["publish", *spec, "--input", self.path("out"), "--publisher", "x",
             "--output", self.path("open"), *account],
            ["release", *self.releasing(*DAYS[:2])[1:], "--check-input"],
        ]  # fmt: skip

    def _specify(self) -> None:
        """A specification that is damaged, by all that read one."""
        fusion = self.choose.random() < 0.15
        text = FUSION if fusion else self.choose.choice([self._spec, levels_city.SPEC, city.SPEC, city.AUSTIN])
        (self.folder / "bad.toml").write_bytes(mutated_toml(self.choose, text))
        spec = ["--spec", self.path("bad.toml")]
        if fusion:
            self.run(["fuse", *spec, "--input", self.path("feed"), "--output", self.path("fused")])
            return
        done = self.run(["spec", "check", self.path("bad.toml")])
        if done.code == 0:
            self.run(["init", *spec, "--region-is-public", "--ledger", self.path("other.sqlite")])
            self.run(
                [*self.releasing(*DAYS[:2]), *spec, "--ledger", self.path("other.sqlite"), "--output", self.path("o")]
            )
            if self.choose.random() < 0.3:
                self.run(["plan", *spec])

    def _arguments(self) -> None:
        """A command with one argument that is none."""
        spec, days = ["--spec", self.path("spec.toml")], ["--from", DAYS[0], "--to", DAYS[1]]
        commands = [
            self.releasing(*DAYS[:2]),
            ["ledger", "missing", *spec, *days, *self.account],
            ["init", *spec, *self.account],
            ["map", "--input", self.path("out"), "--output", self.path("map.html")],
            ["estimate", *spec, *days, "--output", self.path("estimates"), *self.account],
        ]
        given = self.choose.choice(commands)
        places = [
            index
            for index in range(1, len(given))
            if given[index - 1].startswith("--") and given[index - 1] != "--json"
        ]
        index = self.choose.choice(places)
        if given[index - 1] in ("--output", "--ledger"):  # these would be made in the folder where the tests run
            value = self.choose.choice(["", "/dev/null", "/dev/null/x", self.path("feed"), self.path("spec.toml")])
        else:
            value = self.choose.choice(ARGUMENTS)
        self.run([*given[:index], value, *given[index + 1 :]])

    def _other(self) -> None:
        """Drafts, maps of damaged results, and addresses that answer with what none should."""
        sample = self.folder / "sample" / f"s.{self.choose.choice(FORMATS)}"
        sample.parent.mkdir(exist_ok=True)
        whole = (self.folder / "feed" / f"a.{self._kind}").read_bytes()
        results = sorted((self.folder / "out").glob("hats-*.csv"))
        kind = self.choose.randrange(9)
        if kind < 4:
            sample.write_bytes(mutated_bytes(self.choose, whole))
            self.run(["spec", "new", "--sample", str(sample)])
            timetable = write_timetable(self.folder / "timetable.zip")
            timetable.write_bytes(mutated_bytes(self.choose, timetable.read_bytes()))
            self.run(["spec", "new", "--gtfs", str(timetable), "--output", self.path("drafted.toml")])
        elif kind < 7 and results:
            damaged = sample.with_name(self.choose.choice(results).name)
            damaged.write_bytes(mutated_bytes(self.choose, results[0].read_bytes()))
            self.run(["map", "--input", str(damaged), "--output", self.path("map.html")])
        else:
            (self.folder / "x.backup").write_bytes(mutated_bytes(self.choose, whole))
            self.run(["ledger", "restore", "--from", self.path("x.backup"), "--nothing-since", *self.account])
        shutil.rmtree(sample.parent)


def lived(seed: int, steps: int = STEPS, server: Postgres | None = None) -> int:
    """The number of commands of a whole life. Raises Broken."""
    with tempfile.TemporaryDirectory(prefix="hatstream-world-") as folder:
        world = World(seed, Path(folder), server)
        world.live(steps)
        return world.cases


def fresh(seconds: float, seed: int | None = None) -> Iterator[tuple[int, int, str]]:
    """Seed, commands, and what broke (or nothing), of one world after the other; with PostgreSQL where there is one."""
    until, world_seed = time.monotonic() + seconds, random.SystemRandom().randrange(1 << 40) if seed is None else seed
    with ExitStack() as stack:
        server = None if missing_programs() else stack.enter_context(postgres_server())
        while time.monotonic() < until:
            try:
                yield world_seed, lived(world_seed, server=server), ""
            except Broken as broken:
                yield world_seed, 0, str(broken)
            world_seed += 1
