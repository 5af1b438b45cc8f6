"""Runs `pip install` and shows how far it is: `python .ci/pip_progress.py -r requirements.lock ..`.

Standard library only, for nothing is installed yet. One line that is rewritten on a terminal, else a line a minute.
"""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

QUIET_PIP = ("--disable-pip-version-check", "--no-color", "--progress-bar", "off")
BYTES = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def main(arguments: list[str]) -> int:
    lock = Path(arguments[arguments.index("-r") + 1])
    whole = sum(bool(re.match(r"[A-Za-z0-9._-]+==", line)) for line in lock.read_text().splitlines())
    state = {"collected": 0, "megabytes": 0.0, "installing": False}
    begun, ended = time.monotonic(), threading.Event()
    shown = threading.Thread(target=show, args=(state, whole, begun, ended))
    shown.start()
    pip = [sys.executable, "-m", "pip", "install", *QUIET_PIP, *arguments]
    with subprocess.Popen(pip, stdout=subprocess.PIPE, text=True, errors="replace") as running:
        for line in running.stdout:
            hear(line, state)
    ended.set()
    shown.join()
    return running.returncode


def hear(line: str, state: dict) -> None:
    """Counts what pip says: its packages, megabytes, and the start of its last stage."""
    if line.startswith(("Collecting ", "Requirement already satisfied", "Ignoring ")):
        state["collected"] += 1
    elif "Downloading" in line and (found := re.search(r"\(([\d.]+) (bytes|kB|MB|GB)\)", line)):
        state["megabytes"] += float(found[1]) * BYTES[found[2]]
    elif line.startswith("Installing collected packages"):
        state["installing"] = True


def show(state: dict, whole: int, begun: float, ended: threading.Event) -> None:
    is_terminal, said = sys.stderr.isatty(), time.monotonic()
    while not ended.wait(0.5):
        now = time.monotonic()
        if is_terminal or now - said >= 60:
            shown = text(state, whole, now - begun)
            print(
                f"\r{shown:78}" if is_terminal else shown, end="" if is_terminal else "\n", file=sys.stderr, flush=True
            )
            said = now
    if is_terminal:
        print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)


def text(state: dict, whole: int, spent_s: float) -> str:
    if state["installing"]:
        return f"  unpacking the packages, {spent_s:.0f} s so far (a minute or two)"
    fetched = f", {state['megabytes']:,.0f} MB fetched" if state["megabytes"] else ""
    return f"  {min(state['collected'], whole)} of {whole} packages{fetched}, {spent_s:.0f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
