"""What `pip install hatstream` brings works in an environment that holds nothing else, under each Python there is here.

Needs the package index, and two minutes a Python.
"""

import csv
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from pipelines.cli import COMMANDS
from pipelines.companions import COMPANION_COMMANDS
from pipelines.runs.flink.worker_pool import IMPORTED
from tests import city
from tests.servers import unavailable
from transforms.errors import EXTRA_OF

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
PYTHONS = ("3.11", "3.12", "3.13")
PIP = (sys.executable, "-m", "pip", "-q")
LIBRARY = """
import apache_beam as beam, hatstream, pyarrow.parquet as pq
reports = pq.read_table("demo/sample-2026-05-14.parquet").to_pylist()[::100]
day = "2026-05-14"
with beam.Pipeline(runner="FnApiRunner") as p:
    rows = p | beam.Create(reports) | hatstream.Release("town.toml", day, day, ledger="library.sqlite")
    rows | beam.Map(lambda row: row["status"]) | beam.io.WriteToText("statuses", shard_name_template="")
"""


def run(*arguments, cwd=None, check=True):
    """A program that sees nothing of this checkout or of its environment."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "HATS"))}
    done = subprocess.run([*map(str, arguments)], cwd=cwd, env=plain, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{arguments}: {done.stderr[-2000:]}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, made of the source archive and of nothing beside it."""
    folder = tmp_path_factory.mktemp("dist")
    source = run(sys.executable, "-c", BUILD, folder, cwd=ROOT).stdout.split()[-1]
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, folder / source, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def companion_wheels(wheel):
    """The wheels of all companions, beside that of the core."""
    sources = sorted((ROOT / "companions").iterdir())
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", wheel.parent, *sources, cwd=wheel.parent)
    return wheel.parent


def environment(folder, python):
    """The folder of programs of an empty environment with the packages of requirements.lock pinned."""
    run(python, "-m", "venv", folder)
    pinned = re.findall(r"^([\w.-]+==[^\n\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    (folder / "pinned.txt").write_text("\n".join(pinned))
    if run(
        folder / "bin" / "pip", "install", "-q", "--constraint", folder / "pinned.txt", "click", check=False
    ).returncode:
        unavailable("the package index does not answer")
    return folder / "bin"


@pytest.fixture(scope="module", params=PYTHONS)
def python(request):
    """The Python of each version that is here."""
    program = shutil.which(f"python{request.param}")
    if program is None or run(program, "--version", check=False).returncode:
        pytest.skip(f"there is no python{request.param} here")
    return program


@pytest.fixture(scope="module")
def installed(python, wheel, tmp_path_factory):
    """The programs of an environment of one wheel and what it requires."""
    programs = environment(tmp_path_factory.mktemp("core"), python)
    run(programs / "pip", "install", "-q", "--constraint", programs.parent / "pinned.txt", wheel)
    return programs


@pytest.fixture(scope="module")
def with_companions(python, wheel, companion_wheels, tmp_path_factory):
    """The programs of an environment with all companions, as the core's extras bring them."""
    programs = environment(tmp_path_factory.mktemp("companions"), python)
    found = ("--constraint", programs.parent / "pinned.txt", "--find-links", companion_wheels)
    run(programs / "pip", "install", "-q", *found, f"{wheel}[city,publish,local,lab]")
    return programs


def test_the_archives_hold_what_runs_and_its_long_description(wheel):
    listed = run(sys.executable, "-m", "zipfile", "-l", wheel).stdout
    named = {line.split()[0] for line in listed.splitlines()[1:]}
    rooms = {name.partition("/")[0] for name in named if ".dist-info/" not in name}
    assert rooms == {"dpops", "transforms", "pipelines", "hatstream"}
    ours = {path.relative_to(ROOT).as_posix() for room in rooms for path in (ROOT / room).rglob("*.*")}
    assert {name for name in ours if not name.endswith(".pyc")} == {name for name in named if ".dist-info/" not in name}
    metadata = run(sys.executable, "-m", "zipfile", "-e", wheel, wheel.parent / "opened")
    assert not metadata.stdout
    text = next((wheel.parent / "opened").glob("*.dist-info/METADATA")).read_text()
    assert "Description-Content-Type: text/markdown" in text
    assert (ROOT / "README.md").read_text().strip() in text
    assert all(f"Classifier: Programming Language :: Python :: {version}" in text for version in PYTHONS)


def test_the_smallest_set_holds_nothing_of_an_extra(installed):
    ask = f"from importlib.util import find_spec; print([n for n in {[*EXTRA_OF]!r} if '.' not in n and find_spec(n)])"
    assert run(installed / "python", "-c", ask).stdout.strip() in ("[]", "['PIL']")  # Beam brings pillow


def test_every_command_says_how_it_is_used_and_which_version_it_is(installed):
    assert run(installed / "hatstream", "--version").stdout.startswith("hatstream, version 0.")
    for name in COMMANDS:
        assert "Usage: hatstream" in run(installed / "hatstream", name, "--help").stdout


def test_the_core_releases_a_day_without_any_companion(installed, tmp_path):
    city.write(tmp_path)
    ledger = ("--spec", "spec.toml", "--ledger", "city.sqlite")
    day = ("--from", city.DAYS[0], "--to", city.DAYS[0])
    hatstream = installed / "hatstream"
    run(hatstream, "spec", "check", "spec.toml", cwd=tmp_path)
    run(hatstream, "plan", "--spec", "spec.toml", cwd=tmp_path)
    run(hatstream, "init", *ledger, cwd=tmp_path)
    run(hatstream, "release", *ledger, "--input", "feed.csv", *day, "--output", "out", "--formats", "csv", cwd=tmp_path)
    run(hatstream, "ledger", "verify", "--ledger", "city.sqlite", cwd=tmp_path)
    assert any(path.read_text().count("\n") > 1 for path in tmp_path.glob("out/*.csv"))


@pytest.mark.parametrize(("words", "extra"), [(name.split(), extra) for name, (extra, _) in COMPANION_COMMANDS.items()])
def test_a_missing_companion_is_one_sentence(installed, words, extra):
    done = run(installed / "hatstream", *words, check=False)
    sentence = f"{' '.join(words)} is part of hatstream's {extra}, which is not installed"
    assert (done.returncode, done.stderr) == (1, f"hatstream: {sentence}: pip install 'hatstream[{extra}]'\n")


def test_a_town_is_made_drafted_released_drawn_and_reported(with_companions, tmp_path):
    installed = with_companions
    hatstream = installed / "hatstream"
    run(hatstream, "demo", "--output", "demo", cwd=tmp_path)
    drafted = ("--gtfs", "demo/town-gtfs.zip", "--sample", "demo/sample.parquet")
    run(hatstream, "spec", "new", *drafted, "--output", "town.toml", cwd=tmp_path)
    ledger = ("--spec", "town.toml", "--ledger", "town.sqlite")
    run(hatstream, "init", *ledger, cwd=tmp_path)
    day = ("--from", "2026-05-13", "--to", "2026-05-13")
    released = ("--input", "demo/sample.parquet", *day, "--output", "out", "--formats", "parquet,csv,avro,geojson")
    run(hatstream, "release", *ledger, *released, cwd=tmp_path)
    run(hatstream, "map", "--input", "out/*.parquet", "--output", "map.html", cwd=tmp_path)
    run(hatstream, "report", *ledger, "--output", "report.html", cwd=tmp_path)
    run(hatstream, "publish", *ledger, "--input", "out/*.parquet", "--publisher", "Town", "--licence", "CC-BY-4.0",
        "--output", "portal", cwd=tmp_path)  # fmt: skip
    rows = [row for path in tmp_path.glob("out/*.csv") for row in csv.DictReader(path.read_text().splitlines())]
    assert {"ok", "parent"} & {row["status"] for row in rows}
    assert (tmp_path / "map.html").stat().st_size > 50_000
    run(hatstream, "init", "--spec", "town.toml", "--ledger", "library.sqlite", cwd=tmp_path)
    run(installed / "python", "-c", LIBRARY, cwd=tmp_path)
    assert (tmp_path / "statuses").read_text()


def test_a_missing_extra_is_named(installed, tmp_path):
    city.write(tmp_path)
    asked = ("init", "--spec", tmp_path / "spec.toml", "--ledger", "postgresql://h/l")
    done = run(installed / "hatstream", *asked, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "hatstream: psycopg is not installed: pip install 'hatstream[postgres]'\n",
    )


# --- images -----------------------------------------------------------------------------------------------------------

# No container engine is asked: a virtual environment of its own, which finds the dependencies beside it and not this
# checkout, takes the place of the image; what the container files copy is built there as both build it.
RECIPES = [ROOT / "deploy" / name / "Dockerfile" for name in ("containers", "dataflow")]
IMAGE_WHEEL = ["wheel", "--no-deps", "--no-build-isolation"]


def copied() -> list[str]:
    """The paths of the checkout that the stage of the wheel takes, which all recipes have alike."""
    stages = [
        re.findall(r"^FROM environment AS wheel\n(.*?)^FROM", recipe.read_text(), re.M | re.S) for recipe in RECIPES
    ]
    ((stage,),) = {tuple(names) for names in stages}
    assert f"RUN pip {' '.join(IMAGE_WHEEL)} --wheel-dir /wheels ." in stage
    return [word for line in re.findall(r"^COPY (.*)$", stage, re.M) for word in line.split()[:-1]]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs that the images would have."""
    folder = tmp_path_factory.mktemp("image")
    sources = folder / "sources"
    sources.mkdir()
    for word in copied():
        if (ROOT / word).is_dir():
            copytree(ROOT / word, sources / word, ignore=ignore_patterns("__pycache__"))
        else:
            (sources / word).write_bytes((ROOT / word).read_bytes())
    run(*PIP, *IMAGE_WHEEL, "--wheel-dir", folder, ".", cwd=sources)
    venv.create(folder / "image", symlinks=True)
    programs = folder / "image" / "bin"
    (wheel,) = folder.glob("*.whl")
    run(*PIP, "--python", programs / "python", "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = folder.glob("image/lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return programs


def test_the_image_s_program_starts_and_releases_a_day_of_parquet(image: Path, tmp_path: Path) -> None:
    assert run(image / "hatstream", "--version", cwd=tmp_path).stdout.startswith("hatstream, version ")
    city.write_parquet(tmp_path)
    run(image / "hatstream", *city.init(tmp_path), cwd=tmp_path)
    command = city.release(tmp_path, end=city.DAYS[0])
    command[command.index("--input") + 1] = str(tmp_path / "feed-*.parquet")
    run(image / "hatstream", *command, cwd=tmp_path)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 4


def test_a_worker_in_the_image_finds_what_a_job_sends_it(image: Path, tmp_path: Path) -> None:
    program = f"import {', '.join(IMPORTED)}; print(hatstream.__file__)"
    place = run(image / "python", "-c", program, cwd=tmp_path).stdout.strip()
    assert place.startswith(str(image.parent))
