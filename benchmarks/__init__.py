"""Programs that measure. What they start is compiled beforehand, as an installed package is."""

import compileall
from pathlib import Path

for package in ("dpops", "transforms", "pipelines", "hatstream"):
    compileall.compile_dir(Path(__file__).parents[1] / package, quiet=1)
