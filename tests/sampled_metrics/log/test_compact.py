"""The compact log: counts, joint counts and sums are those of its rows, and nothing is lost."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.log import compact
from sampled_metrics.log.compact import KIND, equal_rows
from sampled_metrics.log.read import read_log


def rows(items, users=300, weighted=False):
    """Rows of three recommenders, each of which lacks some users; users have up to so many."""
    rng = np.random.default_rng(1)
    rows_per_user = rng.integers(1, items + 1, users)
    user = np.repeat(np.arange(users), rows_per_user)
    user_rows = pd.DataFrame({"user": user, "item": np.arange(user.size)})
    table = pd.concat([user_rows.assign(recommender=name) for name in "bac"], ignore_index=True)
    table["n_better"] = rng.integers(0, 7, len(table))
    table["n_tied"] = np.where(rng.random(len(table)) < 0.2, 2, 0)
    table["n_items"] = 50 + table["user"] % 2
    if weighted:
        table["count"] = 1 + table["user"] % 3
    is_kept = rng.random((3, users)) < 0.8
    return table[is_kept[np.repeat(np.arange(3), len(user_rows)), table["user"]]].sample(
        frac=1, random_state=2
    )


def test_a_log_does_not_change():
    log = read_log("bundled")
    with pytest.raises(FrozenInstanceError):
        log.shared_negatives = True


@pytest.mark.parametrize("table", [1 << 22, 0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("items", [1, 4])
def test_counts_and_sums_are_those_of_the_rows(monkeypatch, items, weighted, table):
    monkeypatch.setattr(compact, "_TABLE", table)
    monkeypatch.setattr(compact, "_BLOCK", 70)
    log = read_log(rows(items, weighted=weighted), n_negatives=9, replacement=True)
    frame = log.frame
    weight = frame["count"] if weighted else pd.Series(1, index=frame.index)
    assert log.n_users == weight.groupby(frame["user"]).first().sum()
    assert (log.sizes is None) == (items == 1)
    keys = [frame["recommender"], *(frame[name] for name in KIND)]
    expected = weight.groupby(keys).sum()
    counts = log.counts.set_index(["recommender", *KIND])["count"]
    assert counts.to_dict() == expected.to_dict()
    kind_values = np.random.default_rng(3).integers(0, 1000, (3, log.kinds["position"].size))
    by_kind = pd.MultiIndex.from_arrays([log.kinds[name] for name in KIND])
    for recommenders in ((0,), (2, 0), (0, 1, 2)):
        row_values = pd.Series(0.0, index=frame.index)
        for recommender in recommenders:
            has_recommender = frame["recommender"] == log.recommenders[recommender]
            value = (
                pd.Series(kind_values[recommender], by_kind)
                .groupby(level=list(range(len(KIND))))
                .first()
            )
            if items > 1:  # kinds that differ in ties among relevant items have one value here
                kind_values[recommender] = value.loc[by_kind]
            row_values[has_recommender] = value.loc[
                pd.MultiIndex.from_frame(frame.loc[has_recommender, list(KIND)])
            ].to_numpy()
        is_included = frame["recommender"].isin(
            [log.recommenders[recommender] for recommender in recommenders]
        )
        sums = row_values[is_included].groupby(frame["user"][is_included]).sum()
        users = weight[is_included].groupby(frame["user"][is_included]).first()
        expected = users.groupby(sums).sum()
        values_by_name = {
            log.recommenders[recommender]: kind_values[recommender].astype(float)
            for recommender in recommenders
        }
        parts = list(log.user_sums(values_by_name))
        counts = pd.Series(np.concatenate([user_counts for _, user_counts in parts]))
        counts = counts.groupby(np.concatenate([value for value, _ in parts])).sum()
        assert counts.to_dict() == expected.to_dict()
    users = [set(frame["user"][frame["recommender"] == name]) for name in log.recommenders]
    different = sorted(users[0] ^ users[1])
    n_different = weight.groupby(frame["user"]).first().loc[different].sum()
    assert log._difference(0, 1) == (n_different, different[0])
    assert log._difference(2, 2) == (0, None)


@pytest.mark.parametrize("table", [1 << 22, 0])
def test_joint_counts_are_those_of_users_with_both_rows(monkeypatch, table):
    monkeypatch.setattr(compact, "_TABLE", table)
    log = read_log(rows(1), n_negatives=9, replacement=True)
    wide = log.frame.pivot(index="user", columns="recommender", values=list(KIND))
    first_name, _, second_name = log.recommenders
    (first, second), counts = log.joint_counts(first_name, second_name)
    assert counts.sum() == wide["n_better"][[first_name, second_name]].notna().any(axis=1).sum()
    for first_code, second_code, count in zip(first, second, counts, strict=True):
        is_match = np.ones(len(wide), dtype=bool)
        for name, code in ((first_name, first_code), (second_name, second_code)):
            kind_values = [log.kinds[key][code - 1] if code else np.nan for key in KIND]
            columns = wide.xs(name, axis=1, level="recommender")[list(KIND)].to_numpy()
            is_match &= (
                (columns == kind_values) | (np.isnan(columns) & np.isnan(kind_values))
            ).all(axis=1)
        assert count == is_match.sum()


def test_a_log_takes_a_byte_for_a_row_of_few_kinds():
    log = read_log(rows(1), n_negatives=9, replacement=True)
    assert [codes.dtype for codes in log.codes] == [np.uint8] * 3
    several_items = read_log(rows(4), n_negatives=9, replacement=True)
    assert several_items.codes[0].dtype == np.uint16
    assert several_items.sizes[0].dtype == np.uint8


def test_instances_share_their_user():
    table = pd.DataFrame({"user": [1, 1, 1, 2], "instance": [1, 2, 2, 1], "rank": [3, 3, 1, 4]})
    log = read_log(table, n_items=50, n_negatives=9, replacement=True)
    assert log.users_of == {"recommender": 2}
    kinds = pd.DataFrame(log.kinds)[["n_better", "n_instances"]]
    assert sorted(kinds.to_numpy().tolist()) == [[0, 2], [1, 2], [2, 2], [3, 1]]


@pytest.mark.parametrize("most", [1, 40, 2**20, 2**61])
def test_rows_are_of_one_kind_if_they_agree_in_all_columns(most):
    rng = np.random.default_rng(3)
    kinds = [*rng.integers(0, 5, (2, 6)), *rng.integers(0, most, (3, 6)), np.full(6, 7)]
    columns = np.array(kinds)[:, rng.integers(0, 6, 500)]
    kind, kind_columns = equal_rows([*columns, np.array([4])], 500)
    assert (np.array(kind_columns)[:-1, kind] == columns).all()
    assert np.array(kind_columns)[:-1].T.tolist() == np.unique(columns, axis=1).T.tolist()
    assert (kind_columns[-1] == 4).all()
