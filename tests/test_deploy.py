"""The files under deploy/ fit the code: paths, options, variables, versions and exit codes. No container is started."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pipelines import errors as exit_codes
from pipelines.cli import hatstream

ROOT = Path(__file__).parents[1]
CONTAINERS, SCHEDULE = ROOT / "deploy" / "containers", ROOT / "deploy" / "schedule"
COMPOSE = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
CODES = {name: code for name, code in vars(exit_codes).items() if name.isupper()}
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "hatstream:local"}


def sources():
    return "\n".join(path.read_text() for top in ("pipelines", "transforms") for path in (ROOT / top).rglob("*.py"))


def refused_options(words):
    """Those of `hatstream WORDS` that its command does not have."""
    command = hatstream.get_command(None, words[0])
    names = {name for option in command.params for name in option.opts}
    return {word.partition("=")[0] for word in words if word.startswith("-")} - names


def test_commands_of_containers_have_the_options_that_they_are_given():
    called = [service["command"] for service in OURS.values() if "entrypoint" not in service]
    assert {words[0] for words in called} == {"collect", "init", "publish", "stream"}
    assert not any(refused_options(words) for words in called)


def test_paths_that_containers_take_from_the_checkout_exist():
    folder = CONTAINERS / OURS["stream"]["build"]["context"]
    recipe = (folder / OURS["stream"]["build"]["dockerfile"]).read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", recipe, re.M) for word in line.split()[:-1]]
    assert {"requirements-images.lock", "pipelines", "hatstream"} <= set(copied)
    mounted = [
        text.partition(":")[0] for service in COMPOSE["services"].values() for text in service.get("volumes", ())
    ]
    files = [CONTAINERS / text for text in mounted if text.startswith("./")]
    assert all(path.exists() for path in [*files, *(folder / word for word in copied)])
    assert {text for text in mounted if re.fullmatch(r"[\w-]+", text)} == set(COMPOSE["volumes"])


def test_variables_are_those_that_the_code_and_compose_read():
    given = {name for service in OURS.values() for name in service["environment"]}
    assert given == {"HATSTREAM_LEDGER", "PGPASSWORD"}
    assert "HATSTREAM_LEDGER" in sources()
    asked = set(re.findall(r"\$\{(\w+)", (CONTAINERS / "compose.yaml").read_text()))
    example = (CONTAINERS / ".env.example").read_text()
    assert asked == set(re.findall(r"^(\w+)=", example, re.M))


def test_containers_publish_ports_on_the_loopback_address_alone():
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_may_do_little_on_its_machine(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", ())) <= ({"CHOWN"} if name == "folders" else set())
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert (service["user"] != "root") == (name != "folders")
    forever = name not in ("topics", "folders", "account")
    assert (service.get("restart") == "unless-stopped") == forever


def test_services_depend_on_services_and_share_networks_of_services():
    names = set(COMPOSE["services"])
    for service in COMPOSE["services"].values():
        assert set(service.get("depends_on", ())) <= names
        shared = service.get("network_mode", "service:kafka").removeprefix("service:")
        assert shared in names


def test_the_job_server_has_the_locked_beam_and_the_cluster_its_flink():
    images = {name: service["image"] for name, service in COMPOSE["services"].items()}
    flink, beam = re.fullmatch(r"apache/beam_flink([\d.]+)_job_server:([\d.]+)", images["jobserver"]).groups()
    assert f"\napache-beam=={beam} " in (ROOT / "requirements.lock").read_text()
    assert images["jobmanager"] == images["taskmanager"] == f"flink:{flink}-java17"


def test_the_oldest_beam_that_is_taken_is_tried_beside_the_locked_one():
    asked = set(re.findall(r'"apache-beam(?:\[\w+\])?(.*?)"', (ROOT / "pyproject.toml").read_text()))
    (oldest,) = re.findall(r"apache-beam==([\d.]+)\.0/", (ROOT / "Makefile").read_text())
    assert asked == {f">={oldest},<3"}
    assert f"\napache-beam=={oldest}" not in (ROOT / "requirements.lock").read_text()


def test_prometheus_asks_where_the_stream_serves_its_metrics():
    (job,) = yaml.safe_load((CONTAINERS / "prometheus.yml").read_text())["scrape_configs"]
    ((target,),) = (config["targets"] for config in job["static_configs"])
    host, _, port = target.partition(":")
    assert OURS["stream"]["network_mode"] == f"service:{host}"
    assert f"--metrics=0.0.0.0:{port}" in OURS["stream"]["command"]


def test_the_table_of_exit_codes_is_that_of_the_code():
    table = dict(re.findall(r"^\| (\d) \| ([^|]+) \|", (SCHEDULE / "README.md").read_text(), re.M))
    assert {int(code) for code in table} == set(CODES.values())
    told = re.search(r"Exit codes: (.*?)\.", re.sub(r"\s+", " ", hatstream.help))[1]
    assert {code: meaning.strip() for code, meaning in table.items()} == dict(
        re.findall(r"(\d) ((?:[^,]|, (?!\d))+)", told)
    )


def test_systemd_tries_again_what_may_pass_by_itself():
    unit = (SCHEDULE / "hatstream-release.service").read_text()
    said = dict(re.findall(r"^(\w+)=(.*)$", unit, re.M))
    assert said["SuccessExitStatus"] == str(exit_codes.DIFFERS)
    final = {exit_codes.WRONG_USE, exit_codes.BAD_SPECIFICATION, exit_codes.REFUSED}
    assert {int(code) for code in said["RestartPreventExitStatus"].split()} == final
    assert said["Restart"] == "on-failure"
    assert not refused_options(said["ExecStart"].split()[1:])
    assert (SCHEDULE / said["OnFailure"].replace("%n.service", ".service")).exists()


def test_schedulers_let_no_period_be_sealed_that_was_stopped_for_somebody_to_look():
    for name in ("hatstream-release.service", "release-yesterday.sh", "airflow_dag.py"):
        assert "--unattended" in (SCHEDULE / name).read_text(), name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    for path in SCHEDULE.glob("hatstream-*"):
        text = path.read_text().replace("/opt/hatstream/.venv/bin/hatstream", "/bin/true")
        (tmp_path / path.name).write_text(text)
    units = ["hatstream-release.timer", *sorted(path.name for path in SCHEDULE.glob("hatstream-*[a-z].service"))]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if "hatstream-" in line] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("unit", sorted(SCHEDULE.glob("*.service")), ids=lambda path: path.name)
def test_a_unit_may_do_little_on_its_machine(unit):
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=25", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.parametrize("name", ["collect", "publish", "stream"])
def test_what_runs_for_ever_is_begun_again_unless_somebody_must_mend_it(name):
    settings = dict(re.findall(r"^(\w+)=(.*)$", (SCHEDULE / f"hatstream-{name}.service").read_text(), re.M))
    final = {exit_codes.WRONG_USE, exit_codes.BAD_SPECIFICATION, exit_codes.REFUSED}
    assert {int(code) for code in settings["RestartPreventExitStatus"].split()} == final
    assert settings["Restart"] == "always"
    assert not refused_options(settings["ExecStart"].split()[1:])


@pytest.mark.parametrize("code", sorted(CODES.values()))
def test_the_script_for_cron_tries_again_only_what_may_pass(tmp_path, code):
    fake, runs = tmp_path / "hatstream", tmp_path / "runs"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {runs}\nexit {code}\n')
    fake.chmod(0o755)
    settings = {"HATSTREAM": str(fake), "HATSTREAM_HOME": str(tmp_path), "TRIES": "3", "WAIT_S": "0"}
    script = ["sh", SCHEDULE / "release-yesterday.sh"]
    done = subprocess.run(script, env=os.environ | settings, capture_output=True, text=True, check=False)
    calls = runs.read_text().splitlines()
    assert len(calls) == (3 if code == exit_codes.FAILED else 1)
    assert done.returncode == (0 if code == exit_codes.DIFFERS else code)
    assert bool(done.stdout) == (code != exit_codes.DONE)
    assert not refused_options(calls[0].split())


def test_the_dag_compiles_and_names_the_codes_of_the_code():
    tree = ast.parse((SCHEDULE / "airflow_dag.py").read_text())
    pairs = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            pairs = dict(zip((n.id for n in node.targets[0].elts), ast.literal_eval(node.value), strict=True))
    assert pairs == CODES
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    given = ["release", *(word for word in words if re.fullmatch(r"--[a-z]+", word))]
    assert len(given) > 5
    assert not refused_options(given)
