"""Which samples are kept for the eval loss. By content alone: the same sample always falls on the same side."""

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.errors import refused


def split(digests: NDArray[np.uint64], fraction: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The samples to train on and those to evaluate with, each in order; at least one on either side.

    Shapes: `digests` [samples] uint64, spread evenly; both results hold indices. Raises DataError where all samples
    are the same.
    """
    if not fraction:
        return np.arange(len(digests)), np.empty(0, np.int64)
    evaluated = digests < np.uint64(fraction * 2.0**64)
    if not evaluated.any():
        evaluated = digests == digests.min()
    elif evaluated.all():
        evaluated = digests != digests.max()
    if evaluated.all() or not evaluated.any():
        message = "all samples are the same, so none can be kept for the eval loss"
        raise refused("data.eval_fraction", message, "give other data, or set data.eval_fraction to 0")
    return np.flatnonzero(~evaluated), np.flatnonzero(evaluated)
