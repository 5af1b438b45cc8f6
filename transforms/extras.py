"""Which extra of the installation brings a package that not everybody needs."""

from collections.abc import Mapping
from importlib.util import find_spec

EXTRA_OF: Mapping[str, str] = {
    "boto3": "s3",
    "botocore": "s3",
    "confluent_kafka": "kafka",
    "google.cloud": "gcs",
    "matplotlib": "pictures",
    "PIL": "lab",
    "prometheus_client": "flink",
    "psycopg": "postgres",
}
"""Extras of pyproject.toml, by the names under which their packages are imported."""


class MissingExtra(ModuleNotFoundError):
    """A package of an extra is not installed; the message says what to install."""


def advice(extra: str) -> str:
    """Tells how an extra is installed."""
    return f"pip install 'hatstream[{extra}]'"


def missing(error: Exception) -> MissingExtra | None:
    """Names the extra of a package that an import did not find; None for other errors, and where no extra brings it."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    name = next((package for package in EXTRA_OF if f"{error.name}.".startswith(f"{package}.")), None)
    return None if name is None else MissingExtra(f"{name} is not installed: {advice(EXTRA_OF[name])}", name=name)


def require(package: str) -> None:
    """Raises MissingExtra where a package of EXTRA_OF is not installed: before anything is spent, not when it is used.

    Example:
        >>> require("matplotlib")
    """
    if find_spec(package) is None:
        raise MissingExtra(f"{package} is not installed: {advice(EXTRA_OF[package])}", name=package)
