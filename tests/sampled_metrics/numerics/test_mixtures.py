"""Factors of systems that rounding has left short of what they should be."""

import numpy as np
import pytest

from sampled_metrics.numerics.mixtures import _factor


def test_a_matrix_a_little_short_of_positive_definite_is_factored():
    matrix = np.ones((3, 3)) - 1e-14 * np.eye(3)
    assert np.linalg.eigvalsh(matrix).min() < 0
    upper = np.triu(_factor(matrix, 1e-15))
    np.testing.assert_allclose(upper.T @ upper, matrix, rtol=0, atol=1e-12)


@pytest.mark.parametrize("little", [1e-15, np.nan])
def test_a_missing_number_ends_the_search(little):
    with np.errstate(over="ignore", invalid="ignore"):
        assert _factor(np.full((3, 3), np.nan), little).shape == (3, 3)
