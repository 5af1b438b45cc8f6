"""Tables of counts that `hatstream plan` takes, in every form, and those that it refuses."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import city
from tests.pipelines.commands.counts import TABLE


def test_all_forms_of_a_table_give_the_same_plan(planned, tmp_path):
    rows = [line.split(",") for line in TABLE.splitlines()[1:]]
    columns = dict(zip(("slot", "cell", "vehicle", "count"), zip(*rows, strict=True), strict=True))
    columns["count"], columns["slot"] = ([int(value) for value in columns[name]] for name in ("count", "slot"))
    pq.write_table(pa.table({**columns, "speed": [1.0] * 7}), tmp_path / "counts.parquet")
    lines = [json.dumps({name: columns[name][number] for name in columns}) for number in range(7)]
    first = planned(city.SPEC, counts=TABLE)
    second = planned(city.SPEC, counts="\n".join(lines), name="counts.jsonl")
    third = planned(city.SPEC, "--counts", str(tmp_path / "counts.parquet"))
    for document in (first, second, third):
        del document["counts"]
    assert first == second == third


@pytest.mark.parametrize(
    ("name", "counts", "said"),
    [
        ("counts.csv", "", "cannot be read as csv"),
        ("counts.csv", "slot,cell,vehicle,count\n", "holds no rows"),
        ("counts.csv", "slot,vehicle,count\n1,PLATE1,3\n", "`hat` or both `slot` and `cell`; it has slot, vehicle"),
        ("counts.csv", "a,b\n1,2\n", "it has none of them"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,PLATE1\n", "every count must be a whole number"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2.5\n", "every count must be a whole number"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\n1,PLATE2,0\n", "the count in row 2 must be"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\n1,,1\n", "column 'vehicle' is empty in row 2"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\n1,PLATE1,1\n", "more than one row in the same HAT"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\nPLATE1\n", "cannot be read as csv"),
        ("counts.csv", "hat,count\n1,2000000000\n1,2000000000\n", "more than 2147483647 samples"),
        ("counts.jsonl", '{"hat": 1, "vehicle": "PLATE1", "count": true}', "every count must be a whole number"),
        ("counts.jsonl", '{"hat": 1, "vehicle": ["PLATE1"], "count": 1}', "'vehicle' must hold text or numbers"),
        ("counts.jsonl", '{"hat": 1, "vehicle": "PLATE1"', "cannot be read as jsonl"),
        ("counts.parquet", "PLATE1", "cannot be read as parquet"),
        ("counts.json", '["PLATE1"]', "count number 1 of the list must be"),
        ("counts.json", "[3, true]", "count number 2 of the list must be"),
        ("counts.json", "[3, -1]", "count number 2 of the list must be"),
        ("counts.json", '{"count": [3]}', "must hold a list of counts"),
        ("counts.json", "[]", "must hold a list of counts"),
        ("counts.json", "PLATE1", "is not JSON"),
        ("counts.json", "[2000000000, 2000000000]", "more than 2147483647 samples"),
        ("counts.txt", "PLATE1", "counts come from .json, .csv, .jsonl or .parquet files"),
    ],
)
def test_a_bad_file_is_refused_clearly_without_a_vehicles_name(plan, name, counts, said):
    code, out, err = plan(city.SPEC, counts=counts, name=name)
    assert (code, out) == (4, "")
    assert said in err
    assert "PLATE" not in err


def test_wrong_use_a_missing_file_and_a_bad_specification_have_their_codes(plan, tmp_path):
    assert plan(city.SPEC, "--synthetic", counts="[3]", name="counts.json")[0] == 1
    code, _, err = plan(city.SPEC, "--counts", str(tmp_path / "nowhere.csv"))
    assert code == 4
    assert "there is no file of counts" in err
    assert plan(city.SPEC.replace("epsilon = 1.0", "epsilon = 0"))[0] == 2
