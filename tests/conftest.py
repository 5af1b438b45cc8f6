"""What several tests share: where real telemetry lies, and a small city in files."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def telemetry() -> Path:
    """The folder of real telemetry beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("the real telemetry is not beside this checkout")
    return SHARED
