"""Populations that the tests of designs share."""

import numpy as np
import pytest

from tests.reference import bundled_ranks


@pytest.fixture(scope="module")
def population():
    """Ranks of X, Y and Z in a catalogue of 300, and the same in nearly the same order."""
    return {
        name: 1 + np.floor(300 * (r.n_better + r.n_tied / 2) / r.n_candidates).astype(int)
        for name, r in bundled_ranks().items()
    }
