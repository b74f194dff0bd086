"""Recommendations of RecTools against counting by hand."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.log.read import read_log
from sampled_metrics.readers import rectools

from .counts import COUNTS, as_dict


def test_recommendations_in_the_form_of_rectools(tmp_path):
    reco = pd.DataFrame(
        {
            "user_id": [1, 1, 1, 2, 2],
            "item_id": [7, 8, 9, 7, 5],
            "score": [0.9, 0.4, 0.4, 3.0, 2.0],
            "rank": [1, 2, 3, 1, 2],
        }
    )
    test = pd.DataFrame({"user_id": [1, 2, 2], "item_id": [8, 5, 5], "weight": 1, "datetime": 0})
    by_score = {("recommender", 1, 8): (1, 1, 2), ("recommender", 2, 5): (1, 0, 1)}
    by_rank = {("recommender", 1, 8): (1, 0, 2), ("recommender", 2, 5): (1, 0, 1)}
    assert as_dict(rectools(reco, test)) == by_score
    assert as_dict(rectools(reco.drop(columns="score"), test)) == by_rank
    models = pd.concat([reco.assign(model="A"), reco.assign(model="B")])
    assert list(rectools(models, test)["recommender"]) == ["A", "A", "B", "B"]
    reco.to_csv(tmp_path / "reco.csv", index=False)
    assert as_dict(rectools(tmp_path / "reco.csv", test)) == by_score


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda reco, test: (reco.drop(columns="user_id"), test), "reco must have one column user"),
        (lambda reco, test: (reco.drop(columns="rank"), test), "a column score or rank, got user_"),
        (lambda reco, test: (reco, test.drop(columns="item_id")), "interactions must have one col"),
        (lambda reco, test: (reco.head(1), test), "got none of item 8 of user 1"),
        (lambda reco, test: (pd.concat([reco, reco]), test), "reco must have .* item 7 twice"),
        (lambda reco, test: (reco.head(0), test), "reco must hold one row or more, got none"),
        (lambda reco, test: (reco, test.head(0)), "interactions must hold one row or more, got"),
        (lambda reco, test: (reco.assign(rank=np.nan), test), "rank must be a number, got nan in"),
        (lambda reco, test: (reco.assign(user_id=[1, None]), test), "user must not be missing"),
        (
            lambda reco, test: (reco.astype({"user_id": str}), test),
            "users are of another kind, and n",
        ),
        (
            lambda reco, test: (reco, test.astype({"item_id": str})),
            "items are of another kind, and t",
        ),
        (
            lambda reco, test: (reco.astype({"user_id": str}), test, test),
            "every candidate.*: the ids of its users are of another kind, and numbers in",
        ),
        (lambda reco, test: (reco, test, test.drop(columns="item_id")), "candidates must have one"),
    ],
)
def test_bad_recommendations_are_refused_in_one_sentence(change, message):
    reco = pd.DataFrame({"user_id": [1, 1], "item_id": [7, 8], "rank": [1, 2]})
    test = pd.DataFrame({"user_id": [1], "item_id": [8]})
    with pytest.raises(ValueError, match=message) as refusal:
        rectools(*change(reco, test))
    assert "\n" not in str(refusal.value)


def test_what_unscored_may_be_is_said():
    reco = pd.DataFrame({"user_id": [1, 1], "item_id": [7, 8], "rank": [1, 2]})
    with pytest.raises(ValueError, match="unscored must be 'refuse' or 'tied last', got 'last'"):
        rectools(reco, reco.head(1), unscored="last")
    with pytest.raises(ValueError, match="unscored must be 'refuse' without candidates"):
        rectools(reco, reco.head(1), unscored="tied last")


IDS = {
    "numbers": ([1, 2], [7, 8, 9]),
    "text": (["1", "b"], ["7", "x", "9"]),
    "both": ([1, "1"], [7, "7", 9]),
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("dtype", [object, "category"])
def test_ids_of_rectools_may_be_of_any_kind(kind, dtype):
    users, items = IDS[kind]
    reco = pd.DataFrame({"user_id": np.repeat(np.array(users, object), 3), "item_id": items * 2})
    reco = reco.astype({"user_id": dtype, "item_id": dtype}).assign(score=[3, 2, 1, 1, 2, 3])
    test = pd.DataFrame({"user_id": users, "item_id": items[1:]})
    frame = rectools(reco, test)
    assert frame["user"].tolist() == users
    assert frame["item"].tolist() == items[1:]
    assert frame[COUNTS].to_numpy().tolist() == [[1, 0, 2], [0, 0, 2]]
    assert len(read_log(frame, n_items=9).frame) == 2


def test_candidates_of_rectools_are_those_that_were_drawn(tmp_path):
    reco = pd.DataFrame({"user_id": 1, "item_id": range(9), "score": [9, 8, 8, 6, 5, 4, 3, 2, 1]})
    reco = pd.concat([reco.assign(model="A"), reco.assign(model="B", score=-reco["score"])])
    test, drawn = (pd.DataFrame({"user_id": 1, "item_id": items}) for items in ([2], [1, 4, 8]))
    expected = {("A", 1, 2): (0, 1, 3), ("B", 1, 2): (2, 1, 3)}
    assert as_dict(rectools(reco, test, drawn)) == expected
    assert as_dict(rectools(reco, test, pd.concat([drawn, test, drawn]))) == expected
    drawn.to_csv(tmp_path / "drawn.csv", index=False)
    assert as_dict(rectools(reco, test, tmp_path / "drawn.csv")) == expected


def test_unscored_candidates_of_rectools_are_tied_last_on_request():
    lists = [(1, [5, 6, 7, 8]), (2, [6, 9]), (3, [5])]
    reco = pd.DataFrame(
        [(user, item, -position) for user, items in lists for position, item in enumerate(items)],
        columns=["user_id", "item_id", "score"],
    )
    test = pd.DataFrame({"user_id": [1, 2, 3, 4], "item_id": [6, 5, 5, 5]})
    drawn = pd.DataFrame([(u, i) for u in (1, 2, 3, 4) for i in (7, 8, 9)], columns=test.columns)
    with pytest.raises(ValueError, match=r"got none of item 5 of user 2 .*\(11 of 16 are missing"):
        rectools(reco, test, drawn)
    frame = rectools(reco, test, drawn, unscored="tied last")
    assert frame["user"].tolist() == [1, 2, 3, 4]
    assert frame[COUNTS].to_numpy().tolist() == [[0, 0, 3], [1, 2, 3], [0, 0, 3], [0, 3, 3]]


def test_lists_of_rectools_that_were_cut_are_refused():
    items = {1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 4, 5]}
    reco = pd.DataFrame([(user, i, -i) for user, user_items in items.items() for i in user_items],
                        columns=["user_id", "item_id", "score"])  # fmt: skip
    test = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [2, 3, 4]})
    drawn = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [5, 1, 1]})
    with pytest.raises(ValueError, match="got lists that were cut at 3 items") as refusal:
        rectools(reco, test, drawn, unscored="tied last")
    assert "\n" not in str(refusal.value)
    # The model knows three items and has scored them for everyone: nothing was cut.
    reco["item_id"] = [2, 3, 4] * 3
    frame = rectools(reco, test, drawn, unscored="tied last")
    assert frame[COUNTS].to_numpy().tolist() == [[0, 0, 1]] * 3
