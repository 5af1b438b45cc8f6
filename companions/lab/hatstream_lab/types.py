"""Types of arrays, and of what long work calls to say how far it is."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
Report = Callable[[str, int, int | None], None]
"""Called with a phase, what is done of it, and its whole if that is known."""
