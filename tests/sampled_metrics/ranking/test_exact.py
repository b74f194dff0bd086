"""Rank intervals against a slow, obvious twin, and tie policies against enumeration."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics import metric
from sampled_metrics.ranking import exact
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.ranking.intervals import RankIntervals

from .by_factors import ranks_by_factors


def slow_interval(scores, item, train, tolerance=0.0):
    """One instance: (n_better, n_tied, n_candidates) by looking at each candidate in turn."""
    candidates = [i for i in range(len(scores)) if i not in set(train)]
    other_items = [i for i in candidates if i != item]
    item_score = scores[item]
    margin = tolerance * abs(item_score) if tolerance else 0.0
    tied = [
        i for i in other_items if scores[i] == item_score or abs(scores[i] - item_score) <= margin
    ]
    better = [i for i in other_items if scores[i] > item_score and i not in tied]
    return len(better), len(tied), len(candidates)


@st.composite
def instances(draw):
    """Scores on a coarse grid (so that ties abound), held-out items, and training lists."""
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 9) | st.integers(15, 35))
    grid = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, np.inf, -np.inf])
    row = st.lists(grid, min_size=n_items, max_size=n_items)
    scores = np.array(draw(st.lists(row, min_size=n_users, max_size=n_users)))
    held_out = [draw(st.integers(0, n_items - 1)) for _ in range(n_users)]
    train = [sorted(draw(st.sets(st.integers(0, n_items - 1))) - {item}) for item in held_out]
    return scores, held_out, train


def as_matrix(train, shape):
    matrix = sp.lil_array(shape)
    for user, items in enumerate(train):
        for item in items:
            matrix[user, item] = 1
    return matrix.tocsr()


def as_rows(intervals):
    return list(
        zip(
            intervals.n_better.tolist(),
            intervals.n_tied.tolist(),
            intervals.n_candidates.tolist(),
            strict=True,
        )
    )


def small_tiles(patch, rows, columns):
    patch.setattr(exact, "TILE", (rows, columns))


@given(instances(), st.sampled_from([1, 7, 2**21]), st.sampled_from([16, 255 * 8]))
def test_exact_ranks_equal_the_slow_count(case, block_entries, columns):
    scores, held_out, train = case
    expected = [slow_interval(*row) for row in zip(scores, held_out, train, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_BLOCK_ENTRIES", block_entries)
        small_tiles(patch, 256, columns)
        assert as_rows(exact_ranks(scores, held_out, train)) == expected
        matrix = as_matrix(train, scores.shape)
        assert as_rows(exact_ranks(lambda block: scores[block], held_out, matrix)) == expected
        unmasked = [slow_interval(*row, []) for row in zip(scores, held_out, strict=True)]
        assert as_rows(exact_ranks(scores, held_out, None)) == unmasked
        for stop_at in (1, 3):
            stopped = [(*((stop_at, 0) if above >= stop_at else (above, tied)), n)
                       for above, tied, n in expected]  # fmt: skip
            found = exact_ranks(scores, held_out, train, stop_at=stop_at)
            assert as_rows(found) == stopped
            full = exact_ranks(scores, held_out, train)
            names = ("ndcg@1", f"recall@{stop_at}", f"rr@{stop_at}")
            for name in names if found.n_candidates.min() > 1 else ():
                for ties in ("mean", "optimistic", "pessimistic"):
                    values = found.evaluate(name, ties), full.evaluate(name, ties)
                    np.testing.assert_array_equal(*values)


WIDTHS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "float32", "float64", "longdouble"]


def awkward(dtype, rng, shape):
    """Scores of a type: its largest and smallest ones, their neighbours, a few small ones."""
    if dtype in WIDTHS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        extremes = [low, low + 1, -1 - low // 2, 0, 1, 7, high // 2, high - 1, high]
        extremes = [x for x in extremes if low <= x <= high]
    else:
        largest = np.finfo(dtype).max
        unit = np.ones(1, dtype)[0]
        extremes = [
            -np.inf,
            -largest,
            -unit,
            0,
            unit,
            np.nextafter(unit, 2 * unit),
            largest / 2,
            largest,
            np.inf,
        ]
    return np.array(extremes, dtype)[rng.integers(len(extremes), size=shape)]


def by_definition(scores, item, tolerance):
    """Candidates above and tied, in fractions."""

    def tied(score, held_score):
        if score == held_score or not (np.isfinite(score) and np.isfinite(held_score)):
            return score == held_score
        score, held_score = (Fraction(*x.as_integer_ratio()) for x in (score, held_score))
        return abs(score - held_score) <= Fraction(tolerance) * abs(held_score)

    level = [i for i, score in enumerate(scores) if i != item and tied(score, scores[item])]
    above = [i for i, score in enumerate(scores) if score > scores[item] and i not in level]
    return len(above), len(level)


@pytest.mark.parametrize("tolerance", [0.0, 1e-9, 2e-7, 0.3, 0.999])
@pytest.mark.parametrize("dtype", WIDTHS + FLOATS)
def test_scores_of_every_type_are_compared_by_the_definition(dtype, tolerance):
    scores = awkward(dtype, np.random.default_rng(5), (60, 7))
    rows = [row.tolist() if dtype in WIDTHS else list(row) for row in scores]
    expected = [(*by_definition(row, i % 7, tolerance), 7) for i, row in enumerate(rows)]
    held_out = np.arange(60) % 7
    assert as_rows(exact_ranks(scores, held_out, None, relative_tolerance=tolerance)) == expected


def test_other_held_out_items_are_candidates_unless_they_are_named():
    scores = [[4, 3, 2, 1]] * 2  # one user, items 0 and 2 held out
    assert as_rows(exact_ranks(scores, [0, 2], None)) == [(0, 0, 4), (2, 0, 4)]
    assert as_rows(exact_ranks(scores, [0, 2], [[2], [0]])) == [(0, 0, 3), (1, 0, 3)]


def test_a_block_holds_no_more_instances_than_the_bound_allows():
    sizes = []

    def blocks(block):
        sizes.append(block.stop - block.start)
        return np.zeros((block.stop - block.start, 1000))

    exact_ranks(blocks, np.zeros(5000, dtype=int), None)
    assert max(sizes) == exact._BLOCK_ENTRIES // 1000
    assert sum(sizes) == 1 + 5000  # the first row is asked for twice, to learn the catalogue


def test_stored_zeros_and_duplicates_are_not_training_items():
    train = sp.csr_array((np.array([0.0, 1, 1]), np.array([1, 2, 2]), [0, 3]), shape=(1, 3))
    intervals = exact_ranks([[1, 2, 3]], [0], train)
    assert as_rows(intervals) == [(1, 0, 2)]
    assert train.nnz == 3  # the caller's matrix is left alone


def interval_by_argsort(scores, item, train):
    """One instance by sorting: the places of its score from either side of a sorted copy."""
    other_scores = np.delete(scores, np.append(train, item).astype(int))
    ordered = np.sort(other_scores)
    behind, level = (np.searchsorted(ordered, scores[item], side) for side in ("left", "right"))
    return len(other_scores) - level, level - behind, len(other_scores) + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("tile", [(256, 255 * 8), (7, 16), (3, 24), (32, 32)])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
def test_factors_agree_with_a_full_argsort_on_ties_and_masks(monkeypatch, dtype, tile, density):
    # Small whole numbers: their sums are exact in each type, and ties abound.
    rng = np.random.default_rng(7)
    n_users, n_items = 70, 101
    users, items = (rng.integers(-2, 3, (rows, 4)) for rows in (n_users, n_items))
    held_out = rng.integers(0, n_items, n_users)
    seen = rng.random((n_users, n_items)) < density
    seen[np.arange(n_users), held_out] = False
    small_tiles(monkeypatch, *tile)
    intervals = ranks_by_factors(
        users.astype(dtype), items.astype(dtype), held_out, sp.csr_array(seen)
    )
    rows = zip(users @ items.T, held_out, seen, strict=True)
    expected = [
        interval_by_argsort(row, item, np.flatnonzero(seen_row)) for row, item, seen_row in rows
    ]
    assert as_rows(intervals) == expected
    assert density == 1.0 or intervals.n_tied.sum() > 100


@pytest.mark.parametrize("tile", [(256, 255 * 8), (4, 16)])
def test_a_user_may_have_several_held_out_items_or_none(monkeypatch, tile):
    rng = np.random.default_rng(9)
    users, items = rng.integers(-2, 3, (6, 3)), rng.integers(-2, 3, (40, 3))
    owners = np.array([4, 0, 0, 5, 2, 4, 4, 0, 1])  # none of user 3, and in no order
    held_out = rng.integers(0, 20, owners.size)
    seen = rng.random((6, 40)) < 0.3
    seen[:, :20] = False
    expected = exact_ranks((users @ items.T)[owners], held_out, sp.csr_array(seen[owners]))
    small_tiles(monkeypatch, *tile)
    for order in (np.arange(9), np.argsort(owners, kind="stable"), rng.permutation(9)):
        intervals = ranks_by_factors(
            users, items, held_out[order], sp.csr_array(seen), owners=owners[order]
        )
        assert as_rows(intervals) == [as_rows(expected)[i] for i in order]


def test_more_items_than_a_tile_and_more_better_ones_than_a_byte_counts():
    scores = np.arange(5000.0)
    scores[1000:4000] = 2500.0  # ties across two tiles
    users, items = np.ones((300, 1)), scores[:, np.newaxis]
    held_out = np.tile([0, 999, 1000, 3999, 4000, 4999], 50)
    expected = [(4999, 0), (4000, 0), (1000, 2999), (1000, 2999), (999, 0), (0, 0)] * 50
    for intervals in (
        ranks_by_factors(users, items, held_out, None),
        exact_ranks(users @ items.T, held_out, None),
    ):
        assert list(zip(intervals.n_better, intervals.n_tied, strict=True)) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranks_by_factors_are_those_of_exact_arithmetic(dtype):
    # Items that are copies, and items that tie though they differ: rounding tells some apart.
    rng = np.random.default_rng(6)
    users, items = (rng.normal(size=(rows, 7)).astype(dtype) for rows in (12, 60))
    users[:, 1], users[3] = users[:, 0], 0.0
    items[20:40] = items[:20]
    items[40:60] = items[:20]
    items[50:60, :2] = items[50:60, 1::-1]  # level, since the user's factors are
    held_out = rng.integers(0, 60, 12)
    expected = []
    for user, item in zip(users, held_out, strict=True):
        terms = [[Fraction(float(u)) * Fraction(float(v)) for u, v in zip(user, row, strict=True)]
                 for row in items]  # fmt: skip
        scores = [sum(row) for row in terms]
        above = sum(score > scores[item] for score in scores)
        expected.append((above, scores.count(scores[item]) - 1, 60))
    assert as_rows(ranks_by_factors(users, items, held_out, None)) == expected
    assert sum(tied >= 2 for _, tied, _ in expected) >= 5


def test_factors_are_multiplied_in_double_precision():
    intervals = ranks_by_factors([[1.0]], [[1.0], [1.0 + 1e-12]], [0], None)
    assert as_rows(intervals) == [(1, 0, 2)]


def test_scores_beyond_the_largest_number_are_compared_or_refused():
    users = [[1e300, 1e300]]
    intervals = ranks_by_factors(users, [[1e300, 0], [1, 1], [-1e300, 0]], [0], None)
    assert as_rows(intervals) == [(0, 0, 3)]
    assert as_rows(ranks_by_factors(users, [[0, -1e300], [1, 1]], [0], None)) == [(1, 0, 2)]
    with pytest.raises(ValueError, match="scores must not be NaN, got one in row 1"):
        ranks_by_factors([[1, 1], [0, 1]], [[1, 1], [np.inf, 1]], [0, 0], None)


def test_no_matrix_of_all_scores_is_made_from_factors():
    # 10 million users times a million items: any such matrix would need 80 TB.
    users = np.broadcast_to(np.ones(1), (3, 1))
    items = np.arange(1_000_000.0)[:, None]
    intervals = ranks_by_factors(users, items, [0, 999_999, 5], None)
    assert intervals.n_better.tolist() == [999_999, 0, 999_994]


TIED = RankIntervals([1], [2], [9])
STOPPED = RankIntervals([1, 2], [2, 0], [9, 9], 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TIED.ranks("mean"), "ties must be 'optimistic', 'pessimistic' or 'random', or"),
        (lambda: TIED.evaluate(metric("rr"), "best"), "ties must be .*'mean'.* got 'best'"),
        (lambda: TIED.ranks("random"), "rng must be a seed >= 0 or a .*Generator, got None"),
        (lambda: RankIntervals([1, 2], [0], [9]), "must have one length, got 2, 1 and 1"),
        (lambda: RankIntervals([0], [0.5], [9]), "n_tied must be whole numbers >= 0, got 0.5"),
        (lambda: RankIntervals([4], [3], [7]), "n_candidates must be >= .* got 7 with n_better 4"),
        (lambda: exact_ranks([[1.0]], [], None), "held_out must be a list of one item or more"),
        (lambda: exact_ranks([[1.0]], [0], None, stop_at=0), "stop_at must be .* >= 1"),
        (lambda: STOPPED.ranks("optimistic"), "counted to the end, got stop_at = 2"),
        (lambda: STOPPED.evaluate("recall@3"), "a cut-off of at most stop_at = 2, got recall@3"),
        (lambda: exact_ranks([[1.0, 2]], [2], None), "held_out must be < n_items = 2, got 2"),
        (lambda: exact_ranks([[1.0, 2]], [0, 1], None), "scores must have one row for each of 2"),
        (lambda: exact_ranks([[1, 2], [np.nan, 1]], [0, 1], None), "scores must not be NaN.*row 1"),
        (
            lambda: ranks_by_factors([[1.0], [np.nan]], [[1.0]], [0, 0], None),
            "scores must not be NaN, got one in row 1",
        ),
        (lambda: exact_ranks([[1j, 2]], [0], None), "scores must be real numbers, got dtype comp"),
        (lambda: exact_ranks(lambda block: [1, 2], [0], None), r"shape \(1, n_items\) for 1"),
        (lambda: exact_ranks([[1.0, 2]], [0], [[0]]), "held_out must not be a training item.* 0$"),
        (lambda: exact_ranks([[1.0, 2]], [0], [[2]]), "train must hold items < n_items = 2, got 2"),
        (lambda: exact_ranks([[1.0, 2]], [0], sp.csr_array((1, 3))), r"train must have shape"),
        (lambda: exact_ranks([[1.0, 2]], [0], np.eye(2)), "train must be a sparse matrix or a"),
        (
            lambda: exact_ranks([[1.0, 2]], [0], None, relative_tolerance=1.0),
            r"relative_tolerance must be in \[0, 1\), got 1.0",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)
