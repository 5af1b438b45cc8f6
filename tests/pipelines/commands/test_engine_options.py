"""The options of engines: those of all of them, of which one is chosen by its name."""

import click
import pytest

from pipelines.commands.engine_options import chosen_of, options_of
from pipelines.engines import EngineOptions
from pipelines.errors import UsageError


def of_first(slots, parallelism):
    return "first", slots, parallelism


def of_second(parallelism, region):
    return "second", parallelism, region


WORKERS = click.option("--parallelism", type=int, default=1)
ENGINES = {
    "first": EngineOptions(of_first, (click.option("--slots", type=int, default=2), WORKERS)),
    "second": EngineOptions(of_second, (WORKERS, click.option("--region"))),
}


def made(*arguments):
    """What a command makes of its options."""

    @click.option("--engine", default="first")
    def command(engine, **given):
        return chosen_of(ENGINES, engine, "--engine", given)

    for option in options_of(ENGINES).values():
        command = option(command)
    return click.command()(command).main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "engine"),
    [
        ([], ("first", 2, 1)),
        (["--slots", "3", "--parallelism", "4"], ("first", 3, 4)),
        (["--engine", "second", "--region", "north"], ("second", 1, "north")),
        (["--engine", "none of them"], None),
    ],
)
def test_an_engine_is_made_of_its_own_options(arguments, engine):
    assert made(*arguments) == engine


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--region", "north"], "--region goes with --engine second"),
        (["--engine", "second", "--slots", "2"], "--slots goes with --engine first"),
        (["--engine", "none of them", "--slots", "2"], "--slots and --parallelism go with --engine first"),
    ],
)
def test_an_option_of_another_engine_is_refused(arguments, words):
    with pytest.raises(UsageError, match=words):
        made(*arguments)
