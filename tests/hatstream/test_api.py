"""What companions are built on: few names alone; and a project that has folders `transforms` and `pipelines` itself."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dpops
import hatstream
import hatstream.api
from dpops.statistics import registered
from hatstream.own_packages import HOME, find_own_packages_first
from tests import city
from tests.hatstream.pipelines import reports
from transforms.sinks.published import TYPES

ROOT = Path(__file__).parents[2]
COMPANIONS = ("city", "lab", "local", "publish")
MOST = 40  # names of hatstream.api and dpops that companions use


def imported(companion: str, starts: str = "") -> set[str]:
    """The names that a companion imports from the core's packages, or of those that start so, with their modules."""
    names = set()
    for path in (ROOT / "companions" / companion / f"hatstream_{companion}").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    if starts:
        return {name for name in names if name.startswith(starts)}
    return {name for name in names if name.split(".")[0] in ("dpops", "transforms", "pipelines", "hatstream")}


@pytest.mark.parametrize("companion", COMPANIONS)
def test_a_companion_uses_public_names_alone(companion):
    public = {f"hatstream.api.{name}" for name in hatstream.api.__all__} | {f"dpops.{name}" for name in dpops.__all__}
    assert imported(companion) - public == set()


@pytest.mark.parametrize("companion", COMPANIONS)
def test_a_companion_asks_for_those_that_it_is_built_on(companion):
    text = (ROOT / "companions" / companion / "pyproject.toml").read_text()
    asked = {need.split("==")[0] for need in tomllib.loads(text)["project"]["dependencies"]}
    others = {name.split(".")[0] for name in imported(companion, "hatstream_")} - {f"hatstream_{companion}"}
    assert {name.replace("_", "-") for name in others} <= asked


def test_companions_use_few_names():
    used = set().union(*map(imported, COMPANIONS))
    assert len(used) <= MOST
    assert {f"hatstream.api.{name}" for name in hatstream.api.__all__} <= used
    assert sorted(hatstream.api.__all__) == hatstream.api.__all__


def test_what_statistics_put_out_is_declared():
    outputs = {output.name for statistic in registered().values() for output in statistic.extras}
    assert outputs <= TYPES.keys()


PROGRAM = """
import apache_beam as beam
import hatstream
day = "2022-01-01"
with beam.Pipeline(runner="FnApiRunner") as p:
    rows = p | beam.Create([{}]) | hatstream.Release("spec.toml", start=day, end=day, ledger="l.sqlite")
import mine, transforms, pipelines
assert mine.NAME == "mine"
print(transforms.__file__)
"""


@pytest.fixture
def project(tmp_path):
    """A project whose packages would break hatstream if it took them for its own."""
    for name in ("transforms", "pipelines", "dpops"):
        (tmp_path / "project" / name).mkdir(parents=True)
        (tmp_path / "project" / name / "__init__.py").write_text(
            "raise SystemExit('this is the project, not hatstream')"
        )
    (tmp_path / "project" / "mine.py").write_text("NAME = 'mine'")
    city.write(tmp_path / "project")
    return tmp_path / "project"


def run(project, *arguments, path=()):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, [project, *path]))
    done = subprocess.run(arguments, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert "this is the project" not in done.stdout + done.stderr
    return done


def test_another_package_of_the_name_that_was_imported_before_is_refused_with_its_place(tmp_path):
    (tmp_path / "transforms").mkdir()
    (tmp_path / "transforms" / "__init__.py").touch()
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import transforms; import hatstream"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "Import hatstream first" in done.stderr
    assert str(tmp_path) in done.stderr


def test_importing_the_library_is_light_and_finds_its_own_packages(project):
    program = (
        "import hatstream, sys; assert 'apache_beam' not in sys.modules; import transforms, dpops; "
        "print(transforms.__path__[0]); print(dpops.__path__[0])"
    )
    done = run(project, sys.executable, "-c", program)
    assert done.stdout.split() == [str(ROOT / "transforms"), str(ROOT / "dpops")], done.stderr


def test_our_own_packages_are_no_others():
    find_own_packages_first()
    assert Path(HOME) == ROOT == Path(hatstream.__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A folder with hatstream as a wheel installs it."""
    folder = tmp_path_factory.mktemp("wheel")
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    source = folder / "source"
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, names):  # a build leaves files behind
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", *quiet, "--no-build-isolation", "-w", str(folder), str(source)], check=True)
    (built,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", *quiet, "--target", str(folder / "site"), str(built)], check=True)
    return folder / "site"


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["editable", "wheel"])
def test_the_command_and_the_library_work_there(installed, project, request):
    """Site-packages come after PYTHONPATH; decoders and Beam's workers are processes of their own."""
    path, script = [], [str(Path(sys.executable).with_name("hatstream"))]
    home = ROOT
    if installed == "wheel":
        home = request.getfixturevalue("wheel")
        path, script = [home], [sys.executable, str(home / "bin" / "hatstream")]
        for name in ("dpops", "transforms", "pipelines", "hatstream"):
            assert (home / name / "py.typed").exists()
    ledger = ["--spec", "spec.toml", "--ledger", "l.sqlite"]
    assert run(project, *script, "init", *ledger, path=path).returncode == 0
    printed = run(
        project, sys.executable, "-c", PROGRAM.replace("[{}]", json.dumps(reports(city.rows(city.DAYS[:1])))), path=path
    )
    assert printed.stdout.strip() == str(home / "transforms" / "__init__.py"), printed.stderr
    done = run(
        project, *script, "release", *ledger, "--input", "feed.csv", "--from", city.DAYS[0], "--to", city.DAYS[0],
        "--output", "out", "--json", path=path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["slots_new"] == 0, "the library has released them"


@pytest.mark.parametrize(("said", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "4"}, "4")])
def test_linear_algebra_takes_one_thread_unless_somebody_says_otherwise(said: dict[str, str], threads: str) -> None:
    """Threads beside it take five times the CPU where the cores have other work."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | said
    ask = "import os, sys, hatstream.command; print(os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [threads, "False"]
