"""What tests of pages share with those of pipelines, and their browser."""

import pytest

from tests.pipelines.conftest import town as town
from tests.servers import browser


@pytest.fixture(scope="session")
def chromium():
    with browser() as page:
        yield page


@pytest.fixture
def page(chromium):
    """An empty page of a browser that has complained of nothing and asked for nothing."""
    chromium.driver.get("about:blank")
    chromium.complaints(), chromium.requests()
    return chromium
