"""The audit of negatives: counts by hand, levels by simulation, alarms on what is wrong."""

import contextlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

from sampled_metrics import auditing

pytestmark = pytest.mark.words


def audit(*arguments, **options):
    """The table alone."""
    return auditing.audit(*arguments, **options).frame


CHECKS = ["positives", "duplicates", "numbers", "items"]


def by_check(frame):
    return {row.check: row for row in frame.itertuples()}


def claimed(seed, n_users=150, n_items=120, m=12, replacement=False):
    """Negatives as they should be, and positives that favour some items."""
    rng = np.random.default_rng(seed)
    popularity = rng.permutation(1 / (1 + np.arange(n_items)))
    positives = rng.random((n_users, n_items)) < np.minimum(3 * popularity, 0.9)
    negatives = [rng.choice(np.flatnonzero(~liked), m, replace=replacement) for liked in positives]
    return np.array(negatives), n_items, sp.csr_array(positives)


@pytest.mark.some(1)
@pytest.mark.simulation
@pytest.mark.parametrize("replacement", [False, True])
def test_false_alarms_come_at_the_stated_rate(replacement):
    runs = 120
    tables = [audit(*claimed(seed, replacement=replacement), replacement=replacement)
             for seed in range(runs)]  # fmt: skip
    alarms = sum(frame["alarm"].any() for frame in tables)
    assert alarms <= stats.binom.ppf(0.999, runs, 0.05)
    p_values = pd.DataFrame([frame["p_value"].to_numpy() for frame in tables], columns=CHECKS)
    for error_rate in (0.2, 0.05):
        limit = stats.binom.ppf(0.9999, runs, error_rate)
        assert (p_values["items"] <= error_rate).sum() <= limit
    # The chi-square test is not merely cautious: its p-values are uniform.
    assert stats.kstest(p_values["items"], "uniform").pvalue > 1e-3
    assert set(p_values["positives"]) == set(p_values["numbers"]) == {1.0}
    if replacement:
        assert stats.kstest(p_values["duplicates"], "uniform").pvalue > 1e-3
    else:
        assert set(p_values["duplicates"]) == {1.0}


def test_counts_by_hand():
    # User 0 has item 3 as a positive; user 1 draws item 2 twice, user 2 three times.
    negatives = [[0, 3, 1], [2, 2, 4], [2, 2, 2]]
    positives = sp.csr_array(([1], ([0], [3])), shape=(3, 5))
    checks = by_check(audit(negatives, 5, positives, replacement=False))
    assert checks["positives"].statistic == 1
    assert checks["positives"].alarm
    assert checks["positives"].finding == (
        "1 of 3 users have a positive among their negatives, in 1 draws"
    )
    assert checks["duplicates"].statistic == 4
    assert checks["duplicates"].alarm
    # With replacement: 1 + 3 pairs of equal draws, 3/4 + 3/5 + 3/5 expected.
    duplicates = by_check(audit(negatives, 5, positives, replacement=True))["duplicates"]
    assert duplicates.statistic == 4
    assert duplicates.p_value == pytest.approx(2 * stats.poisson(1.95).sf(3))


def test_negatives_show_how_they_were_drawn_where_nobody_says():
    for replacement in (False, True):
        inputs = claimed(1, replacement=replacement)
        audited = auditing.audit(*inputs)
        assert audited.settings["replacement"] is replacement
        pd.testing.assert_frame_equal(
            audited.frame, auditing.audit(*inputs, replacement=replacement).frame
        )
    # Too few of them repeat for draws with replacement.
    rows = claimed(1)[0]
    rows[0, 1] = rows[0, 0]
    assert auditing.audit(rows, 120).alarms == ("duplicates",)


def columns_of(lists):
    return pd.DataFrame(
        [(u, i) for u, row in enumerate(lists) for i in row], columns=["user", "item"]
    )


def test_the_number_of_negatives_is_compared_with_the_claim():
    lists = claimed(1, n_users=40, n_items=500, m=20)[0].tolist()
    short = columns_of([lists[0][:8], *lists[1:]])
    for table, n, n_wrong in (
        (np.array(lists), None, 0), (np.array(lists), 20, 0), (np.array(lists), 25, 40),
        (short, None, 0), (short, 20, 1),
    ):  # fmt: skip
        check = by_check(audit(table, 500, n_negatives=n))["numbers"]
        assert (check.statistic, check.alarm) == (n_wrong, n_wrong > 0)
    assert check.finding == "40 users have 8 to 20 negatives, where 20 are claimed"


def test_the_chi_square_statistic_by_hand():
    # Ten draws or more for each of 3 items, one user, with replacement: Pearson's statistic.
    draws, none_owned = [[0] * 20 + [1] * 10 + [2] * 6], sp.csr_array((1, 3))
    check = by_check(audit(draws, 3, none_owned, replacement=True))["items"]
    pearson = ((20 - 12) ** 2 + (10 - 12) ** 2 + (6 - 12) ** 2) / 12
    assert check.statistic == pytest.approx(pearson / 2)
    tail = stats.chi2(2).sf(pearson)
    assert check.p_value == pytest.approx(2 * min(tail, 1 - tail))


def lower_half(rng, draws, n_items):
    return rng.integers(0, n_items // 2, draws.shape)


def popular(rng, draws, n_items):
    weight = 1 / (1 + np.random.default_rng(99).permutation(n_items))
    return rng.choice(n_items, draws.shape, p=weight / weight.sum())


def shared(rng, draws, n_items):
    return np.tile(rng.choice(n_items, draws.shape[1], replace=False), (len(draws), 1))


def slightly_high(rng, draws, n_items):
    return np.maximum(draws, np.where(rng.random(draws.shape) < 0.2, rng.permuted(draws), 0))


@pytest.mark.parametrize("sampler", [lower_half, popular, shared, slightly_high])
@pytest.mark.parametrize("n_items", [120, 5000])
def test_what_is_not_uniform_raises_the_alarm(sampler, n_items):
    rng = np.random.default_rng(5)
    draws = sampler(rng, rng.integers(0, n_items, (400, 10)), n_items)
    none_owned = sp.csr_array((len(draws), n_items))
    assert by_check(audit(draws, n_items, none_owned, replacement=True))["items"].alarm


def test_own_items_that_are_not_given_raise_no_alarm():
    # Negatives are uniform over what users do not own, and popular items are owned by many.
    draws, n_items, positives = claimed(11, n_users=600, m=30)
    assert not by_check(audit(draws, n_items))["items"].alarm
    assert by_check(audit(draws, n_items, sp.csr_array(positives.shape)))["items"].alarm
    assert not by_check(audit(draws, n_items, positives))["items"].alarm


def test_what_no_own_items_explain_raises_the_alarm():
    draws = np.random.default_rng(12).integers(0, 400, (400, 30))
    often = draws.copy()
    often[:, 0] = 399  # by all users
    assert by_check(audit(often, 400, replacement=True))["items"].alarm
    assert "own items are not given" in auditing.audit(draws, 400).summary()


def test_draws_that_avoid_one_another_raise_the_alarm():
    # Each item the same number of times: too even for chance.
    draws = np.random.default_rng(6).permutation(np.tile(np.arange(100), 20)).reshape(200, 10)
    check = by_check(audit(draws, 100, sp.csr_array((200, 100)), replacement=True))["items"]
    assert check.statistic < 0.01
    assert check.alarm


def test_preference_for_popular_items_raises_the_alarm():
    draws, n_items, positives = claimed(7, n_users=300, n_items=200)
    counts = np.asarray(positives.sum(axis=0))
    rng = np.random.default_rng(8)
    drawn = rng.choice(n_items, draws.shape, p=(1 + counts) / (1 + counts).sum())
    allowed = np.where(positives.toarray()[np.arange(300)[:, None], drawn], draws, drawn)
    checks = by_check(audit(allowed, n_items, positives, replacement=True))
    assert checks["items"].alarm
    assert not checks["positives"].alarm
    # With one draw for ten items, stretches of popular items still show it.
    few = by_check(audit(allowed[:, :1], n_items, positives, replacement=True))
    assert few["items"].finding.startswith("the counts of 30 stretches of items")
    assert few["items"].alarm


def test_tables_are_read_as_arrays_are(tmp_path):
    negatives, n_items, positives = claimed(9, n_users=30, n_items=50)
    user, item = positives.nonzero()
    names = np.array([f"u{u}" for u in range(30)])
    rows = pd.DataFrame({"user": names.repeat(12), "item": negatives.ravel()})
    positive_rows = pd.DataFrame({"user": names[user], "item": item})
    expected = audit(negatives, n_items, positives)
    pd.testing.assert_frame_equal(audit(rows, n_items, positive_rows), expected)
    rows.to_csv(tmp_path / "negatives.csv", index=False)
    positive_rows.to_csv(tmp_path / "positives.csv", index=False)
    from_files = audit(tmp_path / "negatives.csv", n_items, tmp_path / "positives.csv")
    pd.testing.assert_frame_equal(from_files, expected)
    shuffled = audit(rows.sample(frac=1, random_state=1), n_items, positive_rows)
    pd.testing.assert_frame_equal(shuffled, expected)


@pytest.mark.parametrize("first", [0, 1])
def test_files_without_a_header_are_read_as_the_table(tmp_path, first):
    negatives, n_items, positives = claimed(4)
    negatives[0, 0] = n_items - 1  # so that the last item, and the first, show the numbering
    table = pd.DataFrame({"user": np.repeat(np.arange(150), 12), "item": negatives.ravel()})
    owned = pd.DataFrame(dict(zip(("user", "item"), positives.nonzero(), strict=True)))
    right = audit(table, n_items, owned)
    rows = [(user, items) for user, items in enumerate((negatives + first).tolist())]
    texts = {
        "ncf": [f"({u},{first + u % 9})\t" + "\t".join(map(str, items)) for u, items in rows],
        "s3rec": [f"{u} " + " ".join(map(str, items)) for u, items in rows],
        "rating": [f"{u}\t{i + first}\t5\t978824268" for u, i in owned.itertuples(index=False)],
        "plain": [f"{u}\t{i + first}\t4.5" for u, i in owned.itertuples(index=False)],
    }
    by_user = owned.groupby("user")["item"].agg(list)
    texts["lists"] = [" ".join(map(str, [u, *np.add(of, first)])) for u, of in by_user.items()]
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    for drawn in ("ncf", "s3rec"):
        for held in ("rating", "plain", "lists"):
            with contextlib.ExitStack() as stack:
                if first:
                    words = "items are read as numbered from 1"
                    stack.enter_context(pytest.warns(UserWarning, match=words))
                found = audit(tmp_path / drawn, n_items, str(tmp_path / held))
            pd.testing.assert_frame_equal(found, right)


@pytest.mark.parametrize("written", [list, np.array, str, lambda items: " ".join(map(str, items))])
def test_a_column_of_lists_holds_the_negatives(tmp_path, written):
    negatives, n_items, _ = claimed(9)
    table = pd.DataFrame({"user": np.arange(150).repeat(12), "item": negatives.ravel()})
    rows = [written(items) for items in negatives.tolist()]
    listed = pd.DataFrame({"user": np.arange(150), "item_id": 0, "neg_items": rows})
    listed.to_csv(tmp_path / "test.csv", sep="\t", index=False)  # as ReChorus writes it
    words = "read the lists in neg_items as negatives, and left out item_id"
    for source in [listed] if written is np.array else [listed, tmp_path / "test.csv"]:
        with pytest.warns(UserWarning, match=words):
            pd.testing.assert_frame_equal(audit(source, n_items), audit(table, n_items))


def test_a_list_with_another_line_is_refused(tmp_path):
    path = tmp_path / "ml.test.negative"
    path.write_text("(0,25)\t3\t4\n(1,2)\t7\tx\n")
    with pytest.raises(ValueError, match=r"lines like its first.* got '\(1,2\)\\t7\\tx' in line 2"):
        audit(path, 30)


def test_other_names_of_the_columns_are_understood_and_others_named():
    renamed = ROWS.rename(columns={"user": "user_id", "item": "itemId"}).assign(fold=1)
    renaming_warning = pytest.warns(
        UserWarning, match="negatives: read column user_id as user, itemId as item"
    )
    with renaming_warning, pytest.warns(UserWarning, match="negatives: column fold left out"):
        pd.testing.assert_frame_equal(audit(renamed, 5), audit(ROWS, 5))


def test_nothing_is_left_to_test_when_all_draws_are_positives():
    positives = pd.DataFrame({"user": [1], "item": [0]})
    table = audit(pd.DataFrame({"user": [1], "item": [0]}), 10, positives)
    assert table["check"].tolist() == CHECKS[:3]
    assert not table.isna().any(axis=None)


ROWS = pd.DataFrame({"user": [1, 1], "item": [0, 1]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: audit([[0, 1]], 1), r"n_items must be a whole number in \[2, 1000000000\], got 1"),
        (lambda: audit([[0, 2]], 2), "negatives must be <= 1, got 2"),
        (lambda: audit([[0, 0.5]], 2), "negatives must be whole numbers >= 0, got 0.5"),
        (lambda: audit([0, 1], 2), r"negatives must have a row for each user, got .* \(2,\)"),
        (
            lambda: audit(np.zeros((3, 0), int), 2),
            r"must have a row for each user, got .* \(3, 0\)",
        ),
        (lambda: audit([[0, 1]], 2, n_negatives=0), "n_negatives must be a whole number in"),
        (
            lambda: audit(ROWS.assign(item=[[1], "x"]), 3),
            r"item must hold lists such as \[3, 8\], got 'x' in row 2 of negatives",
        ),
        (
            lambda: audit(ROWS.assign(history="[3, 8]", genres="1|2|3"), 9),
            "negatives holds lists in history, genres: rename the one of negatives to neg_items",
        ),
        (lambda: audit(ROWS.assign(user=[{}, 2]), 3), "user must be a number or text, got {}"),
        (
            lambda: audit(ROWS.assign(item=pd.Series([0, 10**310], dtype=object)), 3),
            "got 1000.* in row 2 of negatives",
        ),
        (lambda: audit(ROWS.assign(user_id=1), 3), "columns user, item, user_id|user, user_id"),
        (lambda: audit([[0, 1]], 2, confidence=1), r"must be a number in \(0, 1\), got 1"),
        (lambda: audit([[0, 1]], 2, confidence="x"), r"a number in \(0, 1\), got 'x'"),
        (lambda: audit([[0, 1]], 3, [[1]]), "positives must be a file or a data frame"),
        (
            lambda: audit([[0, 1]], 3, sp.csr_array((2, 3))),
            r"must have shape \(1, 3\), got \(2, 3\)",
        ),
        (lambda: audit([[0, 1]], 2, sp.csr_array([[1, 1]])), "must leave each user a candidate"),
        (
            lambda: audit(ROWS, 3, ROWS.assign(user=7)),
            "positives must have users of negatives, got none of them",
        ),
        (lambda: audit(ROWS, 1 + 1, ROWS.rename(columns={"item": "film"})), "one column item, got"),
        (lambda: audit(ROWS.head(0), 2), "negatives must hold one row or more, got none"),
        (lambda: audit(ROWS.assign(item=[0, 5]), 2), "item must be < n_items = 2, got 5"),
        (lambda: audit(ROWS.assign(user=[1, None]), 2), "user must not be missing"),
        (lambda: audit("absent.csv", 2), "absent.csv cannot be read: No such file"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)
