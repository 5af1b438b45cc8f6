"""Where PostgreSQL is not installed its tests are skipped, and fail where it is required."""

import pytest

from hatstream_lab.servers import postgres
from tests import servers


@pytest.fixture
def nowhere(monkeypatch):
    monkeypatch.setattr(postgres, "_programs", lambda: None)
    for variable in servers.REQUIRED:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("nowhere")
def test_without_postgresql_a_test_is_skipped_with_a_reason():
    with pytest.raises(pytest.skip.Exception, match="make servers"), servers.postgres_server():
        pass


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("variable", servers.REQUIRED)
def test_where_it_is_required_the_test_fails(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(pytest.fail.Exception, match="make servers"), servers.postgres_server():
        pass
