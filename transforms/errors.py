"""Errors of the road, in words that show nothing of its input; and which extra brings a package that is missing."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec


class StepError(Exception):
    """A step cannot go on with a file; the message names the file and what is wrong, and shows nothing of its content.

    Beam makes a RuntimeError of other exceptions of input and output, and adds its step's name to their messages.
    """

    _tagged_with_step = True  # Beam leaves it alone


def recorded_but(failure: str) -> StepError:
    """Makes the error of a failure after the ledger's commit."""
    return StepError(f"{failure}. The release is recorded; running the same command again publishes it.")


def reason_of(error: OSError) -> str:
    """Returns the operating system's message, without the file's name."""
    return error.strerror or type(error).__name__


def did_you_mean(wrong: object, choices: Iterable[str]) -> str:
    """Suggests, for the end of a message, the known name that a mistaken one resembles; empty where none does."""
    names = {name.lower(): name for name in choices}
    matches = get_close_matches(str(wrong).lower(), names, 1, 0.65)
    return f"; did you mean {names[matches[0]]!r}?" if matches else ""


EXTRA_OF: Mapping[str, str] = {
    "boto3": "s3",
    "botocore": "s3",
    "confluent_kafka": "kafka",
    "google.cloud": "gcs",
    "matplotlib": "lab",
    "PIL": "lab",
    "prometheus_client": "flink",
    "psycopg": "postgres",
}
"""Extras of pyproject.toml, by the names under which their packages are imported."""


class MissingExtra(ModuleNotFoundError):
    """A package of an extra is not installed; the message says what to install."""


def advice(extra: str) -> str:
    """Writes the command that installs an extra."""
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
