"""The compact log: counts, joint counts and sums are those of its rows, and nothing is lost."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.log import compact
from sampled_metrics.log.compact import KIND, equal_rows
from sampled_metrics.log.read import read_log


def rows(items, users=300, weighted=False):
    """Rows of three recommenders, each of which lacks some users; users have up to so many."""
    rng = np.random.default_rng(1)
    many = rng.integers(1, items + 1, users)
    user = np.repeat(np.arange(users), many)
    one = pd.DataFrame({"user": user, "item": np.arange(user.size)})
    found = pd.concat([one.assign(recommender=name) for name in "bac"], ignore_index=True)
    found["n_better"] = rng.integers(0, 7, len(found))
    found["n_tied"] = np.where(rng.random(len(found)) < 0.2, 2, 0)
    found["n_items"] = 50 + found["user"] % 2
    if weighted:
        found["count"] = 1 + found["user"] % 3
    left = rng.random((3, users)) < 0.8
    return found[left[np.repeat(np.arange(3), len(one)), found["user"]]].sample(
        frac=1, random_state=2
    )


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
    found = log.counts.set_index(["recommender", *KIND])["count"]
    assert found.to_dict() == expected.to_dict()
    worth = np.random.default_rng(3).integers(0, 1000, (3, log.kinds["position"].size))
    by_kind = pd.MultiIndex.from_arrays([log.kinds[name] for name in KIND])
    for of in ((0,), (2, 0), (0, 1, 2)):
        each = pd.Series(0.0, index=frame.index)
        for number in of:
            own = frame["recommender"] == log.recommenders[number]
            value = pd.Series(worth[number], by_kind).groupby(level=list(range(len(KIND)))).first()
            if items > 1:  # kinds that differ in ties among relevant items have one value here
                worth[number] = value.loc[by_kind]
            each[own] = value.loc[pd.MultiIndex.from_frame(frame.loc[own, list(KIND)])].to_numpy()
        inside = frame["recommender"].isin([log.recommenders[number] for number in of])
        sums = each[inside].groupby(frame["user"][inside]).sum()
        users = weight[inside].groupby(frame["user"][inside]).first()
        expected = users.groupby(sums).sum()
        given = {log.recommenders[number]: worth[number].astype(float) for number in of}
        parts = list(log.sums(given))
        found = pd.Series(np.concatenate([many for _, many in parts]))
        found = found.groupby(np.concatenate([value for value, _ in parts])).sum()
        assert found.to_dict() == expected.to_dict()
    users = [set(frame["user"][frame["recommender"] == name]) for name in log.recommenders]
    differ = sorted(users[0] ^ users[1])
    alone = weight.groupby(frame["user"]).first().loc[differ].sum()
    assert log.difference(0, 1) == (alone, differ[0])
    assert log.difference(2, 2) == (0, None)


def test_joint_counts_are_those_of_users_with_both_rows():
    log = read_log(rows(1), n_negatives=9, replacement=True)
    wide = log.frame.pivot(index="user", columns="recommender", values=list(KIND))
    one_name, _, other_name = log.recommenders
    (first, second), counts = log.joint_counts(one_name, other_name)
    assert counts.sum() == wide["n_better"][[one_name, other_name]].notna().any(axis=1).sum()
    for one, other, count in zip(first, second, counts, strict=True):
        there = np.ones(len(wide), dtype=bool)
        for name, code in ((one_name, one), (other_name, other)):
            own = [log.kinds[key][code - 1] if code else np.nan for key in KIND]
            columns = wide.xs(name, axis=1, level="recommender")[list(KIND)].to_numpy()
            there &= ((columns == own) | (np.isnan(columns) & np.isnan(own))).all(axis=1)
        assert count == there.sum()


def test_a_log_takes_a_byte_for_a_row_of_few_kinds():
    log = read_log(rows(1), n_negatives=9, replacement=True)
    assert [own.dtype for own in log.codes] == [np.uint8] * 3
    several = read_log(rows(4), n_negatives=9, replacement=True)
    assert several.codes[0].dtype == np.uint16
    assert several.sizes[0].dtype == np.uint8


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
    kind, found = equal_rows([*columns, np.array([4])], 500)
    assert (np.array(found)[:-1, kind] == columns).all()
    assert np.array(found)[:-1].T.tolist() == np.unique(columns, axis=1).T.tolist()
    assert (found[-1] == 4).all()
