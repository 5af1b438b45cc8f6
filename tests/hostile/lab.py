"""What is made of true values: `perturb`, `fuse` of what it made, `evaluate`; on damaged telemetry and data sets."""

import os

import numpy as np

from tests import city
from tests.hostile.mutations import mutated_bytes, mutated_toml
from tests.kit import fusion_city

FUSION = fusion_city.spec(
    "two services",
    {"maps": fusion_city.SERVICES["maps"], "weather": 'mechanism = "sr", epsilon = 2'},
    zone="Asia/Kolkata",
)
KEYS = (b"", b"\n", b"00" * 31, b"00" * 32, b"zz" * 32, b"\xff" * 64, b"00" * 5_000)
COUNTS = ("[]", "{}", "[[1, 2], [3]]", '{"a": 3}', "[3, 2, 1]", "[0]", "[-1]", "[1e99]", '["x"]', "[null]", "[" * 9_000)


def telemetry(world, share: float) -> str:
    """A glob of CSV files, damaged in that share of worlds."""
    choose, folder = world.choose, world.folder / "telemetry"
    folder.mkdir(exist_ok=True)
    whole = (city.HEADER + "".join(world.lines)).encode()
    (folder / "a.csv").write_bytes(whole)
    (folder / "b.csv").unlink(missing_ok=True)
    if choose.random() < share:
        name = choose.choice(["a.csv", "b.csv"])
        (folder / name).write_bytes(choose.choice([b"", city.HEADER.encode(), mutated_bytes(choose, whole)]))
    return str(folder / choose.choice(["*.csv", "*.csv", "a.csv", "none*", "["]))


def perturb(world) -> None:
    """Reports of damaged telemetry, by a key that may be none; then they are damaged and fused."""
    choose, spec, key, made = world.choose, world.folder / "f.toml", world.folder / "r.key", world.folder / "r.csv"
    spec.write_bytes(mutated_toml(choose, FUSION) if choose.random() < 0.4 else FUSION.encode())
    key.unlink(missing_ok=True)
    key.write_bytes(choose.choice(KEYS) if choose.random() < 0.2 else os.urandom(32).hex().encode())
    key.chmod(choose.choice([0o600, 0o600, 0o600, 0o644]))
    files = ["--input", telemetry(world, 0.5), "--output", str(made), "--key", str(key)]
    world.run(["perturb", "--spec", str(spec), *files, *choose.choice([[], ["--json"]])])
    if made.exists():
        if choose.random() < 0.6:
            made.write_bytes(mutated_bytes(choose, made.read_bytes()))
        world.run(
            ["fuse", "--spec", str(spec), "--input", str(made), "--output", world.path("fused"), "--formats", "csv"]
        )


def evaluate(world) -> None:
    """What mechanisms are worth, by few runs on what is damaged, in one process."""
    choose, runs, one = world.choose, ["--runs", "1"], ["--processes", "1"]
    kind = choose.randrange(5)
    if kind == 0:
        path = world.folder / "counts.json"
        path.write_text(choose.choice(COUNTS))
        world.run(["evaluate", "papers", *runs, *one, "--counts", str(path)])
    elif kind == 1:
        _sets(world)
        world.run(["evaluate", "papers", *runs, *one, "--sets", world.path("sets"), "--not-private"])
    elif kind == 2:
        feed = ["--data", telemetry(world, 0.5), "--spec", _fusion(world), "--not-private"]
        world.run(["evaluate", "fusion", *runs, *one, *feed])
    else:
        spec = world.folder / "e.toml"
        spec.write_bytes(mutated_toml(choose, city.SPEC) if choose.random() < 0.3 else city.SPEC.encode())
        feed = ["--data", telemetry(world, 0.3), "--spec", str(spec), "--not-private"]
        totals = choose.choice(["0", "x", "1e400"])
        what = choose.choice(
            [
                ["mechanisms", "--epsilons", "1"],
                ["days", "--totals", "2.64"],
                ["days", "--totals", totals],
                ["distributions"],
            ]
        )
        world.run(["evaluate", *what, *runs, *feed])


def _fusion(world) -> str:
    (world.folder / "f.toml").write_text(FUSION)
    return world.path("f.toml")


def _sets(world) -> None:
    """A data set as `--sets` reads it, but for what is wrong with it."""
    choose, folder = world.choose, world.folder / "sets"
    folder.mkdir(exist_ok=True)
    counts = np.array(choose.choice([[3, 2, 4], [], [0, 9], [-1, 10], [2**62, 2**62], [1.5, 2.5]]))
    values = np.array(choose.choice([list(range(9)), [], [float("nan")] * 9, [1e300] * 9, ["x"] * 9]))
    np.savez(folder / "a.npz", counts=counts, values=values)
    if choose.random() < 0.5:
        (folder / "a.npz").write_bytes(mutated_bytes(choose, (folder / "a.npz").read_bytes()))
