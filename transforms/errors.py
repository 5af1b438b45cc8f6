"""Errors of the road: why a step cannot go on, in words that show nothing of its input."""


class StepError(Exception):
    """A step cannot go on with a file; the message names the file and what is wrong, and shows nothing of its content.

    Beam makes a RuntimeError of other exceptions of input and output, and adds its step's name to their messages.
    """

    _tagged_with_step = True  # Beam leaves it alone


def recorded_but(what: str) -> StepError:
    """What failed, after the ledger's commit."""
    return StepError(f"{what}. The release is recorded; running the same command again publishes it.")


def reason_of(error: OSError) -> str:
    """What the operating system says, without the file's name."""
    return error.strerror or type(error).__name__
