"""Servers and a browser that a test may lack: it is skipped with the reason; where they are required it fails."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest

from hatstream_lab.servers import postgres
from hatstream_lab.servers.postgres import GUARDED, Postgres

__all__ = ["GUARDED", "REQUIRED", "Postgres", "emptied", "postgres_server", "unavailable"]

REQUIRED = ("CI", "HATSTREAM_REQUIRE_SERVERS")


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A started server, gone with its folder at the end. Without PostgreSQL the test is skipped, or in CI fails."""
    if postgres._programs() is None:
        unavailable("PostgreSQL is not installed: `make servers` installs it")
    with postgres.postgres_server() as server:
        yield server


def emptied(url: str) -> str:
    """The URL of a database that has nothing in it any more, nor settings, nor anybody connected.

    It is sooner had than a new one, and sooner gone: a server with a database a test takes half a minute to delete.
    """
    with psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=off") as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        db.execute("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$")
        db.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")
    return url


def unavailable(reason: str) -> NoReturn:
    if any(map(os.environ.get, REQUIRED)):
        pytest.fail(f"the servers are required here: {reason}")
    pytest.skip(reason)


READY_S = 60.0
CSS = "css selector"


class Page:
    """One page, opened from disk."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path | str, fragment: str = "") -> None:
        """Opens a file or an address and waits until the page's program says that it is ready."""
        address = path if isinstance(path, str) else path.resolve().as_uri()
        self.driver.get(address + (f"#{fragment}" if fragment else ""))
        self.wait(lambda: self.driver.execute_script("return document.body.dataset.ready") == "yes")

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(CSS, selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element(CSS, selector)

    def click(self, element: Any) -> None:
        """As a mouse does, which first hovers over it: whatever lies there takes the click."""
        self._mouse().move_to_element(element).pause(0.3).click().perform()

    def click_at(self, selector: str, left: float, top: float) -> None:
        """As a mouse does, so many pixels from an element's corner."""
        element = self.one(selector)
        size = element.size
        shift = round(left - size["width"] / 2), round(top - size["height"] / 2)
        self._mouse().move_to_element_with_offset(element, *shift).pause(0.1).click().perform()

    def _mouse(self) -> Any:
        from selenium.webdriver.common.action_chains import ActionChains  # which few tests need

        return ActionChains(self.driver)

    @contextmanager
    def screen(self, width: int, height: int) -> Iterator[None]:
        """A phone's screen, for the block."""
        size = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def wait(self, holds: Any) -> None:
        until = time.monotonic() + READY_S
        while not holds():
            assert time.monotonic() < until, "the page did not get there"
            time.sleep(0.05)

    def complaints(self) -> list[str]:
        """What the console says since it was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that the page asked for since this was asked last, its own file left out."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("file:", "data:", "blob:"))]


def asked(page: Page, script: str, *values: Any) -> Any:
    """What an expression of the page's program is."""
    return page.driver.execute_script(f"return {script}", *values)


@contextmanager
def browser(*, width: int = 1280, height: int = 860) -> Iterator[Page]:
    """A browser that ends with the block."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        unavailable("chromium is not installed: `make servers` installs it")
    from selenium import webdriver  # which few tests need

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    try:
        yield Page(driver)
    finally:
        driver.quit()
