"""Guards what it costs to ask a command how it is used: CPU seconds of `hatstream COMMAND --help`, the least of runs.

python benchmarks/start.py [runs]
"""

import os
import subprocess
import sys

from pipelines.cli import COMMANDS


def cpu_s(arguments: list[str]) -> float:
    """Of a child process and what it waited for."""
    program = "import hatstream.command, sys; from pipelines.cli import main; sys.exit(main(sys.argv[1:]))"
    before = os.times()
    subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for name in COMMANDS:
        print(f"{name:10} {min(cpu_s([name, '--help']) for _ in range(runs)):.2f} s")


if __name__ == "__main__":
    main()
