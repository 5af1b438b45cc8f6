"""From a feed as an agency has it to released rows: local times without an offset, another delimiter, compressed."""

import gzip

from pipelines.specification import load
from tests import city

LOCAL = city.SPEC + 'time_zone = "Asia/Kolkata"\ndelimiter = ";"\n'


def local_lines():
    return [line.replace("+05:30", "").replace(",", ";") for line in city.rows()]


def values(folder):
    return {
        path.name.split("-", 2)[2]: [line.split(",")[3:6] for line in path.read_text().splitlines()[1:]]
        for path in sorted((folder / "out").glob("*.csv"))
    }


def test_a_feed_in_local_time_is_released_slot_by_slot_as_one_with_offsets(tmp_path, hatstream):
    city.write(tmp_path, spec=LOCAL, lines=local_lines())
    feed = tmp_path / "feed.csv"
    packed = gzip.compress(feed.read_bytes().replace(b",", b";"))
    (tmp_path / "feed.csv.gz").write_bytes(packed)
    feed.unlink()
    assert hatstream(*city.init(tmp_path))[0] == 0
    command = [part.replace("feed.csv", "feed.csv.gz") for part in city.release(tmp_path)]
    code, out, _ = hatstream(*command, "--json")
    assert code == 0
    assert f'"observations":{len(city.rows())}' in out
    assert {name: len(rows) for name, rows in values(tmp_path).items() if rows}


def test_times_without_an_offset_are_refused_with_the_remedy(tmp_path, hatstream):
    city.write(tmp_path, lines=[line.replace("+05:30", "") for line in city.rows()])
    hatstream(*city.init(tmp_path))
    code, _, err = hatstream(*city.release(tmp_path))
    assert code == 4
    assert "set input.time_zone" in err


def test_how_a_feed_is_read_is_part_of_what_a_release_is(tmp_path):
    def spec_id(text):
        (tmp_path / "spec.toml").write_text(text)
        return load(tmp_path / "spec.toml").spec_id

    ids = {spec_id(city.SPEC + more) for more in ("", 'time_zone = "UTC"', 'delimiter = ";"', "header = false")}
    assert len(ids) == 4
    assert spec_id(city.SPEC + 'delimiter = ","\nheader = true') == spec_id(city.SPEC)
