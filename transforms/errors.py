"""Errors without input data, and extras for missing packages."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec


class StepError(Exception):
    """Processing error that names file and fault, no content.

    Not an OSError: Beam wraps those in RuntimeError and adds its step's name.
    """

    _tagged_with_step = True  # so Beam does not add its step's name to the message either


def recorded_but(failure: str) -> StepError:
    """Makes the error of a failure to publish what is recorded."""
    return StepError(f"{failure}. The release is recorded; running the same command again publishes it.")


def reason_of(error: OSError) -> str:
    """Returns the operating system's message, without the file's name."""
    return error.strerror or type(error).__name__


def did_you_mean(wrong: object, choices: Iterable[str]) -> str:
    """Suggests the known name closest to a mistaken one."""
    names = {name.lower(): name for name in choices}
    matches = get_close_matches(str(wrong).lower(), names, n=1, cutoff=0.65)  # unlike names are no help
    return f"; did you mean {names[matches[0]]!r}?" if matches else ""


EXTRA_OF: Mapping[str, str] = (  # extras of pyproject.toml, by the names under which their packages are imported
    dict.fromkeys(("boto3", "botocore"), "s3")
    | dict.fromkeys(("matplotlib", "PIL"), "lab")
    | {"confluent_kafka": "kafka", "google.cloud": "gcs", "prometheus_client": "flink", "psycopg": "postgres"}
)


class MissingExtra(ModuleNotFoundError):
    """Missing package of an extra, which the message names."""


def advice(extra: str) -> str:
    """Writes the command that installs an extra."""
    return f"pip install 'hatstream[{extra}]'"


def missing(error: Exception) -> MissingExtra | None:
    """Finds the extra that brings a missing package."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    name = next((package for package in EXTRA_OF if f"{error.name}.".startswith(f"{package}.")), None)
    return None if name is None else MissingExtra(f"{name} is not installed: {advice(EXTRA_OF[name])}", name=name)


def require(package: str) -> None:
    """Raises MissingExtra unless a package is installed.

    >>> require("matplotlib")
    """
    if find_spec(package) is None:
        raise MissingExtra(f"{package} is not installed: {advice(EXTRA_OF[package])}", name=package)
