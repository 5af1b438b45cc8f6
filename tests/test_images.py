"""What the container files copy makes images that start: built as both build it, it releases a day.

No container engine is asked: a virtual environment of its own, which finds the dependencies beside it and not this
checkout, takes the place of the image.
"""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from pipelines.runs.flink.worker_pool import IMPORTED
from tests import city

ROOT = Path(__file__).parents[1]
RECIPES = [ROOT / "deploy" / name / "Dockerfile" for name in ("containers", "dataflow")]
WHEEL = ["wheel", "--no-deps", "--no-build-isolation"]


def copied() -> list[str]:
    """The paths of the checkout that the stage of the wheel takes, which all recipes have alike."""
    stages = [
        re.findall(r"^FROM environment AS wheel\n(.*?)^FROM", recipe.read_text(), re.M | re.S) for recipe in RECIPES
    ]
    ((stage,),) = {tuple(names) for names in stages}
    assert f"RUN pip {' '.join(WHEEL)} --wheel-dir /wheels ." in stage
    return [word for line in re.findall(r"^COPY (.*)$", stage, re.M) for word in line.split()[:-1]]


def pip(folder: Path, *arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    subprocess.run(command, cwd=folder, check=True)


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
    pip(sources, *WHEEL, "--wheel-dir", folder, ".")
    venv.create(folder / "image", symlinks=True)
    programs = folder / "image" / "bin"
    (wheel,) = folder.glob("*.whl")
    pip(folder, "--python", programs / "python", "install", "--no-deps", "--no-index", wheel)
    (packages,) = folder.glob("image/lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return programs


def run(program: Path, *arguments: object, folder: Path) -> str:
    """What a program of the image prints; it must succeed."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_image_s_program_starts_and_releases_a_day_of_parquet(image: Path, tmp_path: Path) -> None:
    assert run(image / "hatstream", "--version", folder=tmp_path).startswith("hatstream, version ")
    city.write_parquet(tmp_path)
    run(image / "hatstream", *city.init(tmp_path), folder=tmp_path)
    command = city.release(tmp_path, end=city.DAYS[0])
    command[command.index("--input") + 1] = str(tmp_path / "feed-*.parquet")
    run(image / "hatstream", *command, folder=tmp_path)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 4


@pytest.mark.slow
def test_a_worker_in_the_image_finds_what_a_job_sends_it(image: Path, tmp_path: Path) -> None:
    program = f"import {', '.join(IMPORTED)}; print(hatstream.__file__)"
    place = run(image / "python", "-c", program, folder=tmp_path).strip()
    assert place.startswith(str(image.parent))
