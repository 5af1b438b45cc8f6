"""What is public of a region's cells: which lie together, and whether they are small."""

import h3.api.basic_int as h3_int
import pytest

from transforms.places.hierarchy import design_of, hats_of


@pytest.mark.parametrize(("resolution", "are_small"), [(7, False), (8, True), (9, True)])
def test_cells_of_resolution_8_and_finer_are_small_where_shares_and_where_means_are_learned(resolution, are_small):
    region = tuple(sorted(h3_int.grid_disk(h3_int.latlng_to_cell(50.4, -104.6, resolution), 1)))
    assert hats_of(region, [7]).are_small == design_of(region).are_small == are_small
