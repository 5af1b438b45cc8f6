"""What single HATs say of the effects: the same as rows of groups of one HAT each."""

import numpy as np

from dpops.learning.design import HOURS
from dpops.learning.hat_information import hat_information
from dpops.learning.layout import EffectLayout
from dpops.learning.means import columns_of
from dpops.learning.queries import GroupRows, Groups
from tests.dpops.learning.city import design


def test_it_is_what_rows_of_single_hats_say() -> None:
    of, rng = design(), np.random.default_rng(2)
    layout, hours = EffectLayout(of, 3), np.arange(HOURS)
    precisions, values = rng.exponential(size=(of.cells, HOURS)), rng.normal(size=(of.cells, HOURS))
    last = rng.normal(size=(of.cells, HOURS, 3))
    groups = Groups(cells=np.arange(of.cells), slots=hours)
    rows = GroupRows(groups, columns_of(of, hours, *(of.columns + np.arange(3))), layout, b"hats")
    hats = np.concatenate([np.ones((of.cells, HOURS, 4)), last], axis=-1)
    expected = rows(hats).information(precisions.ravel(), values.ravel())
    information = hat_information(layout, precisions, values, last)
    for name in ("families", "mixed", "corner", "local", "border"):
        np.testing.assert_allclose(getattr(information, name), getattr(expected, name), atol=1e-9, err_msg=name)
