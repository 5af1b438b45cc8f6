"""Input in an object store: the same release as from files of this machine, and clear words where there is none."""

import gzip
from pathlib import Path

import pytest

from tests import city
from tests.kit.object_store import object_store
from tests.pipelines.runs.on_beam import OPTIONS, put_in_the_place_of_flink
from transforms.errors import StepError
from transforms.layouts.open_file import fetched, is_remote


@pytest.fixture(scope="module")
def store():
    """An S3 in this process; its buckets are those of one test after another."""
    with object_store("fleet") as client:
        yield client


@pytest.mark.slow
def test_a_store_gives_the_bytes_and_digests_that_local_files_give(store, tmp_path, hatstream, monkeypatch):
    city.opened(tmp_path, hatstream)
    assert hatstream(*city.release(tmp_path))[0] == 0
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    head, *lines = (tmp_path / "feed.csv").read_text().splitlines(keepends=True)
    store.put_object(Bucket="fleet", Key="day/one.csv", Body=(head + "".join(lines[::2])).encode())
    store.put_object(Bucket="fleet", Key="day/two.csv.gz", Body=gzip.compress((head + "".join(lines[1::2])).encode()))
    arguments = city.release(tmp_path)
    arguments[arguments.index("--input") + 1] = "s3://fleet/day/*"
    assert hatstream(*arguments)[0] == 0, "another digest would be exit code 5"
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == first
    put_in_the_place_of_flink(monkeypatch)
    assert hatstream(*arguments, *OPTIONS)[0] == 0
    arguments[arguments.index("s3://fleet/day/*")] = "s3://fleet/night/*"
    code, _, err = hatstream(*arguments)
    assert (code, "no input file matches" in err) == (4, True)


def test_what_cannot_be_read_is_named_as_it_is_in_the_store(store, tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    store.put_object(Bucket="fleet", Key="bad/feed.csv", Body=b"no,column,of,ours\n1,2,3,4\n")
    arguments = city.release(tmp_path)
    arguments[arguments.index("--input") + 1] = "s3://fleet/bad/*.csv"
    code, _, err = hatstream(*arguments)
    assert (code, "s3://fleet/bad/feed.csv: " in err) == (4, True)


def test_nothing_that_was_fetched_has_a_name_on_disk(store, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store.put_object(Bucket="fleet", Key="some/feed.csv", Body=b"secret")
    with fetched("s3://fleet/some/feed.csv") as path:
        assert Path(path).read_bytes() == b"secret"
        assert path.endswith("feed.csv")
        (folder,) = tmp_path.iterdir()
        assert [path.is_symlink() for path in folder.iterdir()] == [True], "a link, which holds nothing"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StepError, match=r"s3://fleet/none: cannot be fetched"), fetched("s3://fleet/none"):
        pass


def test_a_store_that_nobody_knows_is_told_with_what_would_help(tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    for pattern, said in (("nowhere://x/*", "no file system is installed for nowhere://"),):
        arguments = city.release(tmp_path)
        arguments[arguments.index("--input") + 1] = pattern
        code, _, err = hatstream(*arguments)
        assert (code, said in err) == (4, True)
    assert not is_remote("feed/*.csv")
    assert not is_remote("C:/feed.csv")
