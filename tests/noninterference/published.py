"""What is made of results for the public: a folder that is published once, and one that grows with its results."""

from hatstream_publish.commands.following import read_options
from hatstream_publish.commands.publish import site_of
from tests.noninterference.roads import Job
from tests.noninterference.world import Feed, Town

TEXTS = ("--publisher", "City of Town", "--licence", "CC-BY-4.0", "--all")


def portal(town: Town, feed: Feed) -> None:
    """A release, published twice: with values that may be used, and with all."""
    Job(formats=("parquet", "jsonl"))(town, feed)
    for name, texts in (("usable", TEXTS[:-1]), ("all", TEXTS)):
        command = ("publish", *town.ledger(), "--input", f"{town.out}/[hd]a[ty]s-*.parquet", *texts)
        town.run(*command, "--output", town.folder / "public" / name)
        town.run(*command, "--output", town.folder / "public" / f"{name}-again", "--json")


def site(town: Town, feed: Feed) -> None:
    """A release, published once, then as one that follows."""
    from hatstream.api import load
    from pipelines.account import location

    Job(formats=("parquet",))(town, feed)
    folder, spec = town.folder / "public" / "site", town.folder / "spec.toml"
    town.run("publish", *town.ledger(), "--input", town.out, *TEXTS, "--output", folder)
    place = location.find(str(town.folder / "ledger.sqlite"), None)
    options = read_options(folder)
    following = site_of(load(spec), spec, place, str(town.out), folder, options, follows=True)
    assert following.files.look()
    assert following.update() is not None
