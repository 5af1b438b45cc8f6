"""Input digests: of what the statistics asked for, and for old specifications as they always were."""

from dataclasses import replace

import numpy as np

from transforms.releases.hats.draw import digest_of, is_plain
from transforms.wire import Tally

PLAIN = "f94582437eca9ad448dcae2c7291bfed50c20a057ec10f7d75773ce968dbf7e4"
"""Of these rows, from before tallies had named columns."""


def rows_of(**sums):
    columns = ([3600, 3600], [5, 9], [7, 8], [2, 1], [0, 3])
    return Tally(*(np.array(column, np.int64) for column in columns), sums={k: np.array(v) for k, v in sums.items()})


def test_a_plain_digest_is_the_one_that_old_ledgers_hold():
    rows = rows_of(squares=[500, 16], sums=[30, 4])
    assert digest_of(rows, "spec/3600/1/", b"k", is_old_form=True) == PLAIN
    assert is_plain(PLAIN)


def test_a_named_digest_begins_with_the_names_of_its_columns_and_depends_on_them():
    mean, both = rows_of(sums=[30, 4]), rows_of(squares=[500, 16], sums=[30, 4])
    digests = [digest_of(rows, "spec/3600/1/", b"k", is_old_form=False) for rows in (mean, both)]
    assert [digest.partition(":")[0] for digest in digests] == ["sums", "squares,sums"]
    assert not any(map(is_plain, digests))
    other = replace(mean, sums={"sums": np.array([30, 5])})
    assert digest_of(other, "spec/3600/1/", b"k", is_old_form=False) != digests[0]
