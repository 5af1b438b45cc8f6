"""The nearest distribution function to a noisy one: isotonic regression, then clipping to [0, 1]."""

import numpy as np

from dpops.forecast import Float64s


def consistent(noisy: Float64s) -> Float64s:
    """Projects each row on non-decreasing sequences in [0, 1] (Euclidean): float64 (rows, K - 1).

    Clipping after isotonic regression is the exact projection on both. Source: algorithms 10.4.
    """
    return np.clip(isotonic(noisy), 0.0, 1.0)


def isotonic(noisy: Float64s) -> Float64s:
    """Finds the nearest non-decreasing sequence to each row, by pooling adjacent violators in all rows at once.

    noisy: float64 (rows, length). Each row keeps a stack of blocks (mean and size); a new value is pushed, and as long
    as the top block of some rows lies below the one under it, those rows merge the two.
    """
    rows, length = noisy.shape
    mean, size = np.zeros((rows, length + 1)), np.zeros((rows, length + 1), np.int64)
    mean[:, 0] = -np.inf  # the bottom, below every value
    top = np.zeros(rows, np.int64)
    every = np.arange(rows)
    for column in range(length):
        top += 1
        mean[every, top], size[every, top] = noisy[:, column], 1
        open_ = every
        while (open_ := open_[mean[open_, top[open_]] < mean[open_, top[open_] - 1]]).size:
            block = top[open_]
            upper, lower = size[open_, block], size[open_, block - 1]
            pooled = mean[open_, block - 1] * lower + mean[open_, block] * upper
            mean[open_, block - 1], size[open_, block - 1] = pooled / (lower + upper), lower + upper
            size[open_, block] = 0
            top[open_] = block - 1
    repeats = np.where(np.arange(length + 1) <= top[:, None], size, 0)
    return np.repeat(mean.ravel(), repeats.ravel()).reshape(rows, length)
