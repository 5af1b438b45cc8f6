"""What serves a published folder: Caddy and nginx as deploy/site configures them, an object store, and the preview."""

import contextlib
import gzip
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from hatstream_lab.servers.process import Server, free_ports, is_open
from tests.kit.static_server import object_store
from tests.servers import unavailable

DEPLOY = Path(__file__).parents[3] / "deploy" / "site"
WAIT_S = 30.0
TABLE = b"slot_start,cell,value\n" * 4_000
FILES = {
    "index.html": b"<title>Town</title>" + b" " * 1_000,
    "latest.json": b'{"map":"map/0011.bin"}' + b" " * 1_000,
    "map/0011.bin": gzip.compress(b"data"),
    "api/days/2022-01-01.parquet": bytes(range(256)) * 40,
    "api/latest.geojson": b"{}" + b" " * 1_000,
    "hats.csv": TABLE,
    "dcat.jsonld": b"{}",
    "specification.toml": b'name = "town"',
}


@pytest.fixture
def folder(tmp_path):
    public = tmp_path / "public"
    for name, content in FILES.items():
        (public / name).parent.mkdir(parents=True, exist_ok=True)
        (public / name).write_bytes(content)
    _sums(public, FILES)
    (public / ".staging").mkdir()
    (public / ".staging" / "half.json").write_bytes(b"{")
    (public / "elsewhere.json").symlink_to("/etc/hostname")
    os.mkfifo(public / "pipe.json")
    return public


def _sums(folder, files):
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    (folder / "SHA256SUMS").write_text("".join(lines))


@contextlib.contextmanager
def _running(command, port, folder, **environment):
    server = Server(command, folder.parent / "server.log", os.environ | environment)
    try:
        server.wait(lambda: is_open(port), WAIT_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


@contextlib.contextmanager
def caddy(folder):
    program = shutil.which("caddy") or unavailable("caddy is not installed: `make servers` installs it")
    (port,) = free_ports(1)
    command = [program, "run", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"]
    settings = {
        "HATSTREAM_SITE": f"http://127.0.0.1:{port}",
        "HATSTREAM_FOLDER": str(folder),
        "HOME": str(folder.parent),
    }
    with _running(command, port, folder, **settings) as address:
        yield address


@contextlib.contextmanager
def nginx(folder):
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    program = program or unavailable("nginx is not installed: `make servers` installs it")
    (port,), home = free_ports(1), folder.parent
    site = (DEPLOY / "nginx.conf").read_text()
    assert "127.0.0.1:8080;" in site
    site = site.replace("127.0.0.1:8080;", f"127.0.0.1:{port};").replace("/srv/hatstream/public", str(folder))
    paths = "".join(f"{name}_temp_path {home}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""  # who may read the folder of a test
    configuration = f"{user} pid {home}/nginx.pid; daemon off; events {{}} http {{ {paths} access_log off; {site} }}"
    (home / "nginx.conf").write_text(configuration)
    command = [program, "-p", str(home), "-c", str(home / "nginx.conf"), "-e", str(home / "nginx.log")]
    with _running(command, port, folder) as address:
        yield address


@pytest.fixture(params=[caddy, nginx], ids=["caddy", "nginx"])
def address(request, folder):
    with request.param(folder) as at:
        yield at


def test_files_come_with_their_type_and_how_long_they_hold(address):
    kinds = {
        "": ("text/html", "no-cache"),
        "latest.json": ("application/json", "no-cache"),
        "map/0011.bin": ("application/octet-stream", "public, max-age=31536000, immutable"),
        "api/days/2022-01-01.parquet": ("application/vnd.apache.parquet", "public, max-age=60"),
        "api/latest.geojson": ("application/geo+json", "no-cache"),
        "hats.csv": ("text/csv", "no-cache"),
        "dcat.jsonld": ("application/ld+json", "no-cache"),
    }
    for name, (kind, max_age) in kinds.items():
        answer = requests.get(f"{address}/{name}", timeout=9)
        assert answer.content == FILES[name or "index.html"]
        assert answer.headers["content-type"].partition(";")[0] == kind, name
        assert answer.headers["cache-control"] == max_age
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
        assert (answer.headers.get("access-control-allow-origin") == "*") == (name not in ("", "dcat.jsonld"))


def test_ranges_packing_and_tags_are_answered(address):
    parquet = f"{address}/api/days/2022-01-01.parquet"
    part = requests.get(parquet, headers={"Range": "bytes=256-511"}, timeout=9)
    assert (part.status_code, part.content) == (206, bytes(range(256)))
    assert "content-encoding" not in requests.get(parquet, headers={"Accept-Encoding": "gzip"}, timeout=9).headers
    table = requests.get(f"{address}/hats.csv", headers={"Accept-Encoding": "gzip"}, timeout=9)
    assert (table.headers["content-encoding"], table.content) == ("gzip", TABLE)
    pointer = requests.get(f"{address}/latest.json", timeout=9)
    again = requests.get(f"{address}/latest.json", headers={"If-None-Match": pointer.headers["etag"]}, timeout=9)
    assert again.status_code == 304


def test_nothing_but_files_of_the_folder_is_answered(address):
    for name in (".staging/half.json", "map/", "api/", "nothing", "%2e%2e/%2e%2e/etc/hostname"):
        assert requests.get(f"{address}/{name}", timeout=9).status_code in (400, 403, 404), name
    for method in ("post", "put", "delete", "patch"):
        assert getattr(requests, method)(f"{address}/latest.json", timeout=9).status_code in (403, 405)


@pytest.fixture
def store():
    with object_store("public") as client:
        yield client


def test_an_object_store_takes_what_changed_and_the_pointer_last(store, folder, monkeypatch):
    spec = importlib.util.spec_from_file_location("upload", DEPLOY / "upload.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    put, names = program._put, []
    monkeypatch.setattr(program, "_put", lambda *arguments: (names.append(arguments[-1]), put(*arguments)))
    assert set(program.upload(store, folder, "public", "town/")) == FILES.keys()
    assert (names[0], names[-2:]) == ("map/0011.bin", ["latest.json", "SHA256SUMS"])
    stored = store.get_object(Bucket="public", Key="town/api/days/2022-01-01.parquet", Range="bytes=256-511")
    assert (stored["Body"].read(), stored["ContentType"]) == (bytes(range(256)), "application/vnd.apache.parquet")
    newer = FILES | {"latest.json": b'{"map":"map/0022.bin"}', "map/0022.bin": b"newer"}
    del newer["map/0011.bin"], newer["hats.csv"]
    for name in ("latest.json", "map/0022.bin"):
        (folder / name).write_bytes(newer[name])
    _sums(folder, newer)
    assert program.upload(store, folder, "public", "town/") == ["map/0022.bin", "latest.json"]
    assert program.upload(store, folder, "public", "town/") == []
    keys = {item["Key"].removeprefix("town/") for item in store.list_objects_v2(Bucket="public")["Contents"]}
    assert keys == {*newer, "map/0011.bin", "SHA256SUMS"}


@contextlib.contextmanager
def _preview(folder):
    command = [sys.executable, "-m", "hatstream", "preview", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert "for looking only" in line
        try:
            yield line.partition(" ")[0].rstrip("/")
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0


def test_the_preview_shows_files_on_this_machine_alone_and_ends_when_it_is_told_to(folder):
    with _preview(folder) as address:
        assert address.startswith("http://127.0.0.1:")
        assert requests.get(address, timeout=9).content == FILES["index.html"]
        assert requests.get(f"{address}/latest.json", timeout=9).headers["cache-control"] == "no-cache"
        for name in ("pipe.json", "elsewhere.json", ".staging/half.json", "map/", "..%2fetc/hostname", "no", "a" * 300):
            assert requests.get(f"{address}/{name}", timeout=9).status_code == 404, name
        assert requests.post(address, timeout=9).status_code == 501


@pytest.mark.parametrize("name", ["town.key", "town.key.head", "ledger.sqlite", "deep/town.sqlite"])
def test_a_folder_with_a_key_or_a_ledger_is_not_shown(folder, hatstream, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("")
    code, _, err = hatstream("preview", folder)
    assert (code, name.rpartition("/")[2] in err) == (1, True)
