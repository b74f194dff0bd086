"""Lists of kinds that grow by parts of a log."""

import numpy as np
import pytest

from sampled_metrics.io.lists import ListsBuilder, MixedError


def part(*users, first=1):
    """Rows of one recommender, with sampled ranks that are counted on from the first."""
    columns = {"rank": first + np.arange(len(users)), "n_items": [100], "n_negatives": [20]}
    whole = {name: np.asarray(column) for name, column in columns.items()}
    return ["a"], np.zeros(len(users), dtype=np.int64), np.array(users), whole, None


def sizes(builder):
    return builder.lists(lambda kinds, position: {**kinds, "position": position}, True).sizes[0]


def test_a_user_in_two_parts_is_one_user():
    builder = ListsBuilder()
    builder.take(part(0, 1, 1))
    builder.take(part(1, 2, first=4))
    builder.take(part(2, 2, 4, first=6))
    assert sizes(builder)[:5].tolist() == [1, 3, 3, 0, 1]


@pytest.mark.parametrize("late", [0, 1])
def test_a_user_who_comes_back_is_found(late):
    builder = ListsBuilder()
    builder.take(part(0, 1, 2))  # 0 and 1 are closed
    with pytest.raises(MixedError):
        builder.take(part(late, 3))
    builder = ListsBuilder()
    builder.take(part(0, 1, 2))
    with pytest.raises(MixedError):
        builder.take(part(2, late))
