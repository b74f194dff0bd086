"""Readers against counting row by row, and against what the libraries' own structures hold."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import sampled_metrics as sm
from sampled_metrics._validate import integer, integers
from sampled_metrics.log.read import read_log
from sampled_metrics.ranking import files as ranking_files
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.readers import (
    from_scores,
    ranx,
    recbole,
    recbole_scores,
    rectools,
    trec,
)
from sampled_metrics.readers.trec import _lines
from sampled_metrics.relevant_sets import RelevantSets


def rank_files(*given, **options):
    """The table alone."""
    return sm.rank(*given, **options).frame


COUNTS = ["n_better", "n_tied", "n_negatives"]


def slow_counts(rows):
    """One row at a time: relevant row -> negatives above, level and in all."""
    found = {}
    for name, user, item, score, relevant in rows:
        if relevant:
            own = [s for n, u, _, s, r in rows if (n, u) == (name, user) and not r]
            found[name, user, item] = (
                sum(s > score for s in own),
                sum(s == score for s in own),
                len(own),
            )
    return found


def as_dict(frame):
    keys = frame[["recommender", "user", "item"]].itertuples(index=False, name=None)
    return dict(zip(keys, frame[COUNTS].itertuples(index=False, name=None), strict=True))


candidates = st.lists(
    st.tuples(
        st.sampled_from(["A", "B"]),
        st.integers(1, 3),
        st.integers(1, 6),
        st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf]),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[:3],
).filter(lambda rows: any(row[4] for row in rows))


@given(candidates)
def test_counts_equal_the_slow_ones(rows):
    frame = pd.DataFrame(rows, columns=["recommender", "user", "item", "score", "relevant"])
    assert as_dict(from_scores(frame)) == slow_counts(rows)
    assert as_dict(from_scores(frame.astype({"relevant": int}))) == slow_counts(rows)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "Int64", "UInt64"])
def test_whole_scores_of_every_width_are_counted_as_they_are(dtype):
    limits = np.iinfo(dtype.lower())
    few = [limits.min, limits.min + 1, limits.max // 2, limits.max - 1, limits.max]
    rng = np.random.default_rng(2)
    score = [few[i] for i in rng.integers(5, size=120)]
    rows = {"recommender": "A", "user": np.repeat(range(12), 10), "item": np.tile(range(10), 12)}
    frame = pd.DataFrame({**rows, "relevant": rng.random(120) < 0.3})
    frame["score"] = pd.array(np.array(score, dtype.lower()), dtype=dtype)
    columns = [frame[key] for key in ("recommender", "user", "item")]
    slow = list(zip(*columns, score, frame["relevant"], strict=True))
    assert as_dict(from_scores(frame)) == slow_counts(slow)
    if dtype in ("int64", "uint64"):
        found = recbole_scores(np.array([few], dtype), [0], [3])
        assert found[COUNTS].to_numpy().tolist() == [[1, 0, 4]]


def test_duplicates_are_refused_kept_or_collapsed():
    # By hand: item 2 drawn twice, level with the relevant item 1; and item 1 drawn as a negative.
    rows = pd.DataFrame(
        {"user": 5, "item": [1, 2, 2, 3, 1], "score": [4, 4, 4, 9, 4], "relevant": [1, 0, 0, 0, 0]}
    )
    with pytest.raises(ValueError, match="item 2 of user 5 twice in the table: say whether to"):
        from_scores(rows)
    kept = from_scores(rows, duplicates="keep")
    assert kept[["item", *COUNTS]].to_numpy().tolist() == [[1, 1, 3, 4]]
    collapsed = from_scores(rows, duplicates="collapse")
    assert collapsed[["item", *COUNTS]].to_numpy().tolist() == [[1, 1, 1, 2]]
    with pytest.raises(ValueError, match="one score, got 2 for item 2 of user 5"):
        from_scores(rows.assign(score=[4, 4, 5, 9, 4]), duplicates="collapse")


def test_a_log_is_what_read_log_takes():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        {
            "user": np.repeat(np.arange(20), 12),
            "item": np.tile(np.arange(12), 20),
            "score": rng.integers(0, 5, 240),
            "relevant": np.tile(np.arange(12) < 2, 20),
        }
    )
    log = read_log(from_scores(rows), n_items=50, replacement=False)
    assert len(log.frame) == 40
    assert (log.frame["n_negatives"] == 10).all()
    assert (log.frame["n_relevant"] == 2).all()


RUN = """\
q1 Q0 d1 1 3.5 bm25
q1 Q0 d2 2 3.5 bm25
q1 Q0 d3 9 1e1 bm25

q2\tQ0\td1  1 -1 bm25
q2 Q0 d7 2 -2 bm25\r
"""


def write(folder, **files):
    for name, text in files.items():
        (folder / name).write_text(text, newline="")
    return [folder / name for name in files]


def test_a_trec_run_is_ordered_by_its_scores(tmp_path):
    paths = write(tmp_path, run=RUN, qrels="q1 0 d2 1\nq1 0 d3 0\nq2 0 d7 2\nq2 0 d1 -1\n")
    assert as_dict(trec(*paths)) == {
        ("bm25", "q1", "d2"): (1, 1, 2),
        ("bm25", "q2", "d7"): (1, 0, 1),
    }


def test_each_tag_of_a_trec_run_is_a_recommender(tmp_path):
    run = "q Q0 a 1 2 one\nq Q0 b 2 1 one\nq Q0 a 1 1 two\nq Q0 b 2 2 two\n"
    assert as_dict(trec(*write(tmp_path, run=run, qrels="q 0 a 1"))) == {
        ("one", "q", "a"): (0, 0, 1),
        ("two", "q", "a"): (1, 0, 1),
    }


@pytest.mark.parametrize(
    ("run", "qrels", "message"),
    [
        (RUN, "q1 0 d9 1\n", "run must hold every relevant item, got none of item d9 of user q1"),
        (RUN, "q9 0 d1 1\n", r"item d1 of user q9 \(1 of 1 are missing for bm25\)"),
        (RUN + "q2 Q0 d1 3 0 bm25\n", "q2 0 d7 1\n", "got item d1 of user q2 twice in .*run"),
        (RUN, "q2 0 d7 1\nq2 0 d7 0", "got item d7 of user q2 twice in .*qrels"),
        (RUN + "q2 Q0 d8 3 bm25\n", "q2 0 d7 1\n", "lines of 6 fields .* got 5 in line 7"),
        (RUN, "q2 0 d7\n", "lines of 4 fields .* got 3 in line 1"),
        (RUN + "q2 Q0 d8 3 high bm25\n", "q2 0 d7 1\n", "score must be a number, got 'high'"),
        (RUN + "q2 Q0 d8 3 nan bm25\n", "q2 0 d7 1\n", "score must be a number, got 'nan'"),
        (
            RUN + "q2 Q0 d8 3 1_0 bm25\n",
            "q2 0 d7 1\n",
            "score must be a number, got '1_0' in row 6",
        ),
        (RUN, "q2 0 d7 yes\n", "rel must be a number, got 'yes' in row 1"),
        (RUN, "q2 0 d7 0\n", "there must be a relevant item to rank in .*run, got none"),
        ("\n", "q2 0 d7 0\n", "run must hold one line or more, got none"),
        (RUN, "q2 0 d\0 1\n", "qrels cannot be read: it holds the character NUL"),
    ],
)
def test_a_bad_trec_file_is_refused_in_one_sentence(tmp_path, run, qrels, message):
    with pytest.raises(ValueError, match=message) as refusal:
        trec(*write(tmp_path, run=run, qrels=qrels))
    assert "\n" not in str(refusal.value)


fields = st.text("ab1é_.\x1c\u2003-", min_size=1, max_size=20) | st.sampled_from(
    ["x" * 32, "x" * 33, "x" * 63 + "é", "x" * 64, "x" * 65, "x" * 64 + "y" * 2, "7", "07", "7.0"]
)
blanks = st.text(" \t\r\v\f", min_size=1, max_size=3)


@given(st.lists(st.tuples(*[fields] * 4, blanks, st.sampled_from(["\n", " \n\n", "\r\n"]))))
def test_lines_are_those_that_splitting_them_one_by_one_finds(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("trec") / "lines"
    names = ["user", "Q0", "item", "rel"]
    text = "".join(blank.join(["", *row]) + end for *row, blank, end in rows)
    path.write_bytes(text.encode())
    if not rows:
        with pytest.raises(ValueError, match="must hold one line or more"):
            _lines(path, names)
        return
    found = _lines(path, names)
    for at, name in enumerate(names):
        if name in ("user", "item"):
            assert found[name].tolist() == [row[at] for row in rows]
    if found["rel"].dtype == float:
        assert found["rel"].tolist() == [float(row[3]) for row in rows]
    else:
        assert found["rel"].tolist() == [row[3] for row in rows]
    path.write_bytes(text.encode() + b"\n" + b" a b c")
    line = text.count("\n") + 2
    with pytest.raises(ValueError, match=f"lines of 4 fields .* got 3 in line {line}$"):
        _lines(path, names)


@pytest.mark.parametrize(
    ("scores", "better"),
    [
        (["9007199254740993", "9007199254740992"], 1),  # alike as floats
        (["1e308", "9e307"], 1),
        (["0." + "3" * 40, "0." + "3" * 9], 1),
        (["-0.0", "0"], 0),
        (["-inf", "-1e308"], 0),
    ],
)
def test_scores_of_trec_keep_their_order(tmp_path, scores, better):
    run = "".join(f"q Q0 {name} 1 {score} t\n" for name, score in zip("ab", scores, strict=True))
    frame = trec(*write(tmp_path, run=run, qrels="q 0 b 1\n"))
    assert frame["n_better"].tolist() == [better]
    assert frame["n_tied"].tolist() == [int(scores[0] == "-0.0")]


def test_a_trec_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="absent cannot be read: No such file"):
        trec(tmp_path / "absent", tmp_path / "absent")
    (tmp_path / "run").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="run cannot be read: it is not text in UTF-8"):
        trec(tmp_path / "run", tmp_path / "absent")


SCORES = {"q1": {"d1": 0.5, "d2": 0.7, "d3": 0.5}, "q2": {"d1": 1.0, "d4": 2.0}}
JUDGED = {"q1": {"d1": 1, "d3": 0}, "q2": {"d1": 3}}
EXPECTED = {("bm25", "q1", "d1"): (1, 1, 2), ("bm25", "q2", "d1"): (1, 0, 1)}


def test_mappings_in_the_form_of_ranx():
    assert as_dict(ranx(SCORES, JUDGED, recommender="bm25")) == EXPECTED
    run = SimpleNamespace(to_dict=lambda: SCORES, name="bm25")
    assert as_dict(ranx(run, SimpleNamespace(to_dict=lambda: JUDGED))) == EXPECTED


def test_objects_of_ranx():
    library = pytest.importorskip("ranx")
    run, qrels = library.Run(SCORES, name="bm25"), library.Qrels(JUDGED)
    assert as_dict(ranx(run, qrels)) == EXPECTED


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
        (lambda reco, test: (pd.concat([reco, reco]), test), "item 7 of user 1 twice in reco"),
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
    found = rectools(reco, test)
    assert found["user"].tolist() == users
    assert found["item"].tolist() == items[1:]
    assert found[COUNTS].to_numpy().tolist() == [[1, 0, 2], [0, 0, 2]]
    assert len(read_log(found, n_items=9).frame) == 2


def test_candidates_of_rectools_are_those_that_were_drawn(tmp_path):
    reco = pd.DataFrame({"user_id": 1, "item_id": range(9), "score": [9, 8, 8, 6, 5, 4, 3, 2, 1]})
    reco = pd.concat([reco.assign(model="A"), reco.assign(model="B", score=-reco["score"])])
    test, drawn = (pd.DataFrame({"user_id": 1, "item_id": own}) for own in ([2], [1, 4, 8]))
    expected = {("A", 1, 2): (0, 1, 3), ("B", 1, 2): (2, 1, 3)}
    assert as_dict(rectools(reco, test, drawn)) == expected
    assert as_dict(rectools(reco, test, pd.concat([drawn, test, drawn]))) == expected
    drawn.to_csv(tmp_path / "drawn.csv", index=False)
    assert as_dict(rectools(reco, test, tmp_path / "drawn.csv")) == expected


def test_unscored_candidates_of_rectools_are_tied_last_on_request():
    lists = [(1, [5, 6, 7, 8]), (2, [6, 9]), (3, [5])]
    reco = pd.DataFrame(
        [(user, item, -at) for user, items in lists for at, item in enumerate(items)],
        columns=["user_id", "item_id", "score"],
    )
    test = pd.DataFrame({"user_id": [1, 2, 3, 4], "item_id": [6, 5, 5, 5]})
    drawn = pd.DataFrame([(u, i) for u in (1, 2, 3, 4) for i in (7, 8, 9)], columns=test.columns)
    with pytest.raises(ValueError, match=r"got none of item 5 of user 2 .*\(11 of 16 are missing"):
        rectools(reco, test, drawn)
    found = rectools(reco, test, drawn, unscored="tied last")
    assert found["user"].tolist() == [1, 2, 3, 4]
    assert found[COUNTS].to_numpy().tolist() == [[0, 0, 3], [1, 2, 3], [0, 0, 3], [0, 3, 3]]


def test_lists_of_rectools_that_were_cut_are_refused():
    items = {1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 4, 5]}
    reco = pd.DataFrame([(u, i, -i) for u, own in items.items() for i in own],
                        columns=["user_id", "item_id", "score"])  # fmt: skip
    test = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [2, 3, 4]})
    drawn = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [5, 1, 1]})
    with pytest.raises(ValueError, match="got lists that were cut at 3 items") as refusal:
        rectools(reco, test, drawn, unscored="tied last")
    assert "\n" not in str(refusal.value)
    # The model knows three items and has scored them for everyone: nothing was cut.
    reco["item_id"] = [2, 3, 4] * 3
    found = rectools(reco, test, drawn, unscored="tied last")
    assert found[COUNTS].to_numpy().tolist() == [[0, 0, 1]] * 3


def recbole_batch(rng, n_users=30, n_items=60, drawn=40):
    """What RecBole does with drawn negatives: scores of the candidates in a row of all items."""
    scores = np.full((n_users, n_items), -np.inf)
    positive = rng.integers(1, n_items, n_users)
    for user in range(n_users):
        negatives = rng.choice(np.delete(np.arange(1, n_items), positive[user] - 1), drawn)
        scores[user, negatives] = rng.permutation(n_items)[negatives]  # duplicates collapse
        scores[user, positive[user]] = n_items + 0.5 if user == 0 else rng.integers(n_items) + 0.5
    return scores, np.arange(n_users), positive


def test_scores_of_recbole_are_counted_row_by_row():
    scores, user, positive = recbole_batch(np.random.default_rng(4))
    found = recbole_scores(scores, user, positive)
    distinct = np.isfinite(scores).sum(axis=1) - 1
    assert (found["n_negatives"] == distinct).all()
    assert distinct.min() < distinct.max() < 40
    own = scores[user, positive][:, None]
    assert found["n_better"].tolist() == (scores > own).sum(axis=1).tolist()
    assert found["n_tied"].tolist() == ((scores == own).sum(axis=1) - 1).tolist()


class RecBole:
    """Of RecBole's trainer, collector and data what the reader asks for; tests/peers has them."""

    def __init__(self, batches, used_ids=None, distribution="uniform"):
        self.eval_collector, self.config = self, {"model": "BPR"}
        self.neg_sample_args = {"distribution": distribution}
        self._dataset, self.uid_field, self.iid_field, self.item_num = self, "uid", "iid", 61
        self._sampler = SimpleNamespace() if used_ids is None else self
        self.datasets, self.used_ids, self.batches, self.collected = [], used_ids, batches, []

    def id2token(self, field, ids):
        return np.array([f"{field[0]}{number}" for number in ids])

    def eval_batch_collect(self, *batch):
        self.collected.append(batch)

    def evaluate(self, data, load_best_model=True):
        for batch in self.batches:
            self.eval_collector.eval_batch_collect(*batch)
        return {"recall@10": 0.5, "loaded": load_best_model}


def test_a_trainer_of_recbole_evaluates_as_ever_and_its_scores_are_kept():
    rng = np.random.default_rng(4)
    batches, users = [], [[3, 8, 5], [4]]
    for own in users:
        scores, row, positive = recbole_batch(rng, len(own))
        candidates = np.isfinite(scores).sum(axis=1) if len(own) > 1 else [1]
        tensor = SimpleNamespace(
            detach=lambda own=own, n=candidates: SimpleNamespace(
                cpu=lambda: SimpleNamespace(numpy=lambda: np.repeat(own, n))
            )
        )
        batches.append((scores, {"uid": tensor}, row, positive))
    used = [set() for _ in range(9)]
    used[8] = {1, 2, int(batches[0][3][1])}
    library = RecBole(batches, used)
    found = recbole(library, library, load_best_model=False)
    assert library.collected == batches
    assert found.attrs["reported"] == {"recall@10": 0.5, "loaded": False}
    assert found["user"].tolist() == ["u3", "u8", "u5", "u4"]
    assert found["item"].tolist() == [f"i{item}" for batch in batches for item in batch[3]]
    assert found["instance"].tolist() == [0, 1, 2, 3]
    assert found["n_items"].tolist() == [60, 58, 60, 60]
    assert set(found["recommender"]) == {"BPR"}
    assert len(read_log(found, replacement=False).frame) == 4
    other = recbole(RecBole(batches), library, recommender="again")
    assert set(other["recommender"]) == {"again"}
    without = RecBole(batches)
    assert recbole(without, without)["n_items"].tolist() == [60] * 4


def test_negatives_that_recbole_draws_by_popularity_are_refused():
    library = RecBole([], distribution="popularity")
    with pytest.raises(ValueError, match="must have uniform negatives, got the distribution 'pop"):
        recbole(library, library)


@pytest.mark.parametrize(
    ("scores", "user", "item", "message"),
    [
        ([1.0, 2.0], [0], [1], r"scores must be a matrix of numbers, got shape \(2,\)"),
        ([[1.0, np.nan]], [0], [1], "scores must not be NaN"),
        ([[1.0, 2.0]], [0], [2], r"rows and columns of scores, of shape \(1, 2\)"),
        ([[1.0, 2.0]], [-1], [1], "rows and columns of scores"),
        ([[1.0, -np.inf]], [0], [1], "scores must hold every relevant item, got none of item 1"),
    ],
)
def test_bad_scores_of_recbole_are_refused_in_one_sentence(scores, user, item, message):
    with pytest.raises(ValueError, match=message) as refusal:
        recbole_scores(scores, user, item)
    assert "\n" not in str(refusal.value)


@pytest.fixture
def factors(tmp_path):
    """Files of factors, of training items, and of several test items for some users."""
    rng = np.random.default_rng(6)
    users, items = rng.integers(-2, 3, (9, 3)), rng.integers(-2, 3, (50, 3))
    seen = rng.random((9, 50)) < 0.2
    seen[:, :25] = False
    test = pd.DataFrame({"user": [8, 0, 8, 3, 8, 0], "item": [3, 4, 5, 6, 7, 24]})
    np.save(tmp_path / "U.npy", users.astype(float))
    np.save(tmp_path / "V.npy", items.astype(float))
    sp.save_npz(tmp_path / "train.npz", sp.csr_array(seen))
    test.to_csv(tmp_path / "test.csv", index=False)
    return users @ items.T, seen, test


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_of_factors_are_ranked_as_their_scores_are(tmp_path, factors, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    scores, seen, test = factors
    output = tmp_path / f"ranks.{suffix}"
    names = ("U.npy", "V.npy", "test.csv", "train.npz")
    frame = rank_files(*(tmp_path / name for name in names), output=output)
    user = test["user"].to_numpy()
    expected = exact_ranks(scores[user], test["item"], sp.csr_array(seen[user]))
    assert frame[["user", "item"]].equals(test)
    for name in ("n_better", "n_tied", "n_candidates"):
        assert frame[name].tolist() == getattr(expected, name).tolist()
    # The irrelevant ones alone: mask the user's other test items, too.
    others = [[i for i in test["item"][user == u] if i != item] for u, item in test.to_numpy()]
    masked = [[*np.flatnonzero(seen[u]), *own] for u, own in zip(user, others, strict=True)]
    irrelevant = exact_ranks(scores[user], test["item"], masked)
    assert (frame["n_better"] - frame["relevant_better"]).tolist() == irrelevant.n_better.tolist()
    assert (frame["n_tied"] - frame["relevant_tied"]).tolist() == irrelevant.n_tied.tolist()
    assert frame["n_relevant"].tolist() == [3, 2, 3, 1, 3, 2]
    read = pd.read_csv(output) if suffix == "csv" else pd.read_parquet(output)
    pd.testing.assert_frame_equal(read, frame)
    assert not list(tmp_path.glob("*.part"))


def test_without_training_items_every_item_is_a_candidate(tmp_path, factors):
    frame = rank_files(tmp_path / "U.npy", tmp_path / "V.npy", tmp_path / "test.csv")
    assert (frame["n_candidates"] == 50).all()


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_training_items_may_be_pairs(tmp_path, factors, kind):
    names = ("U.npy", "V.npy", "test.csv", "train.npz")
    expected = rank_files(*(tmp_path / name for name in names))
    user, item = np.nonzero(factors[1])
    pairs = pd.DataFrame({"item": item, "when": 3, "user": user}).sample(frac=1.5, replace=True,
                                                                        random_state=1)  # fmt: skip
    pairs = pd.concat([pairs, pd.DataFrame({"user": user, "item": item, "when": 0})])
    train = pairs if kind == "frame" else tmp_path / f"train.{kind}"
    if kind == "csv":
        pairs.to_csv(train, index=False)
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        pairs.to_parquet(train, index=False)
    found = rank_files(tmp_path / "U.npy", tmp_path / "V.npy", tmp_path / "test.csv", train)
    pd.testing.assert_frame_equal(found, expected)


def test_a_users_other_test_items_are_candidates_or_not(tmp_path, factors):
    scores, seen, test = factors
    names = ("U.npy", "V.npy", "test.csv", "train.npz")
    frame = rank_files(*(tmp_path / name for name in names), among="irrelevant")
    rows = zip(test["user"], test["item"], frame.itertuples(), strict=True)
    for user, item, found in rows:
        own = set(test["item"][test["user"] == user])
        others = [i for i in range(50) if not seen[user, i] and i not in own]
        above = [i for i in others if scores[user, i] > scores[user, item]]
        level = [i for i in others if scores[user, i] == scores[user, item]]
        counts = (found.n_better, found.n_tied, found.n_candidates)
        assert counts == (len(above), len(level), len(others) + 1)
        ahead = sum(scores[user, i] > scores[user, item] for i in own)
        beside = sum(scores[user, i] == scores[user, item] for i in own) - 1
        given = (found.n_relevant, found.relevant_better, found.relevant_tied)
        assert given == (len(own), ahead, beside)
    with pytest.raises(ValueError, match="among must be 'all' or 'irrelevant', got 'negatives'"):
        rank_files(*(tmp_path / name for name in names), among="negatives")


def spoil(folder, name, content):
    (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "U.npy").unlink(), "U.npy is missing: it must be a .npy file"),
        (lambda f: spoil(f, "U.npy", b""), "U.npy must be a .npy file with a matrix, got: "),
        (lambda f: spoil(f, "U.npy", b"user,item\n"), "U.npy must be a .npy file with a matrix"),
        (lambda f: np.save(f / "U.npy", np.ones(3)), r"matrix of numbers, got shape \(3,\)"),
        (lambda f: np.save(f / "U.npy", np.array([["a"]])), "U.npy must be a .npy file with"),
        (
            lambda f: np.save(f / "U.npy", np.array([[None]]), allow_pickle=True),
            "U.npy must be a .npy file with a matrix, got: ",
        ),
        (
            lambda f: spoil(f, "U.npy", (f / "U.npy").read_bytes()[:-9]),
            "U.npy must be a .npy file with a matrix, got: ",
        ),
        (lambda f: np.save(f / "V.npy", np.ones((50, 2))), "must be matrices of one width"),
        (lambda f: (f / "train.npz").unlink(), "train.npz is missing"),
        (lambda f: spoil(f, "train.npz", b"PK"), "train.npz must be a sparse matrix of SciPy"),
        (
            lambda f: spoil(f, "train.npz", (f / "train.npz").read_bytes()[:200]),
            "train.npz must be a sparse matrix of SciPy",
        ),
        (lambda f: np.savez(f / "train.npz", a=1), "train.npz must be a sparse matrix of SciPy"),
        (
            lambda f: sp.save_npz(f / "train.npz", sp.csr_array((9, 49))),
            r"train must have shape \(9, 50\)",
        ),
        (
            lambda f: spoil(f, "train.npz", b"user,item\n0,1\n"),
            "save_npz writes it, or a CSV or Parquet file with columns user and item$",
        ),
        (lambda f: spoil(f, "U.npy", b"user,item\n"), "matrix, got: a file of another format$"),
        (lambda f: spoil(f, "U.npy", b""), "matrix, got: an empty file$"),
        (
            lambda f: spoil(f, "U.npy", (f / "train.npz").read_bytes()),
            "matrix, got: a .npz or another archive$",
        ),
        (lambda f: spoil(f, "test.csv", b""), "test.csv must hold one row or more"),
        (lambda f: spoil(f, "test.csv", b"user,item\n"), "test.csv must hold one row or more"),
        (lambda f: spoil(f, "test.csv", b"user,film\n1,2\n"), "one column item, got user, film"),
        (lambda f: spoil(f, "test.csv", b"user,item\n9,2\n"), "user must be < 9, the rows of"),
        (lambda f: spoil(f, "test.csv", b"user,item\n1,50\n"), "item must be < 50, the rows of"),
        (lambda f: spoil(f, "test.csv", b"user,item\n1,x\n"), "item must be a whole number"),
        (lambda f: spoil(f, "test.csv", b"user,item\n1,2\n1,2\n"), "item 2 of user 1 twice in"),
    ],
)
def test_a_bad_file_is_refused_and_nothing_is_written(tmp_path, factors, change, message):
    change(tmp_path)
    names = ("U.npy", "V.npy", "test.csv", "train.npz")
    with pytest.raises(ValueError, match=message) as refusal:
        rank_files(*(tmp_path / name for name in names), output=tmp_path / "ranks.csv")
    assert "\n" not in str(refusal.value)
    assert "pickle" not in str(refusal.value)
    assert not list(tmp_path.glob("ranks*"))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("user,film\n0,1\n", "train.csv must have one column item, got user, film"),
        ("user,item\n9,1\n", "user must be < 9, the rows of the user factors, got 9 in .*train"),
        ("user,item\n0,50\n", "item must be < 50, the rows of the item factors, got 50 in .*train"),
        ("user,item\n0,a\n", "item must be a whole number"),
        ("user,item\n8,3\n", "held_out must not be a training item of its own user, got item 3"),
        ("", "train.csv must hold one row or more"),
    ],
)
def test_bad_pairs_of_training_items_are_refused(tmp_path, factors, train, message):
    (tmp_path / "train.csv").write_text(train)
    with pytest.raises(ValueError, match=message):
        rank_files(*(tmp_path / name for name in ("U.npy", "V.npy", "test.csv", "train.csv")))


BIG, HUGE = "x" * 3_000_000, 10**400


@pytest.mark.parametrize(
    "call",
    [
        lambda: from_scores(pd.DataFrame({BIG: [1], "item": [1]})),
        lambda: from_scores(pd.DataFrame({"user": [BIG] * 2, "item": BIG, "score": 1,
                                          "relevant": 1})),
        lambda: from_scores(pd.DataFrame({"user": [BIG], "item": BIG, "score": BIG,
                                          "relevant": 1})),
        lambda: from_scores(pd.DataFrame({"user": [1, 2], "item": 1, "relevant": 1,
                                          "score": pd.Series([HUGE, "b"], dtype=object)})),
        lambda: from_scores(pd.DataFrame({"user": [1], "item": 1, "score": [1j], "relevant": 1})),
        lambda: from_scores(pd.DataFrame(), duplicates=BIG),
        lambda: ranx({BIG: {BIG: 0.1}}, {BIG: {"d": 1}}),
        lambda: ranx({"q": {"d": 0.1}}, {"q": {"d": HUGE}}),
        lambda: rectools(pd.DataFrame({BIG: [1]}), pd.DataFrame()),
        lambda: recbole(None, SimpleNamespace(neg_sample_args={"distribution": BIG})),
        lambda: rank_files(BIG, "V.npy", "test.csv"),
        lambda: rank_files("U.npy", "V.npy", "test.csv", output=BIG),
        lambda: rank_files("U.npy", "V.npy", "test.csv", among=BIG),
        lambda: exact_ranks([[1.0]], [HUGE], None),
        lambda: exact_ranks([[1.0]], [0], [[HUGE]]),
        lambda: exact_ranks([[1.0]], [0], None, relative_tolerance=BIG),
        lambda: RelevantSets([[0] * 20_000], [[0] * 20_000], [range(0, 40_000, 2)], [9]),
        lambda: RelevantSets([[1]], [[0]], [[0]], [2]).expected_gain([[BIG]], [1.0]),
        lambda: integers(10**5_000, "n", 0),
        lambda: integers([2**63], "n", 0),
        lambda: integers([1e300], "n", 0),
        lambda: integers([[1], [1, 2]], "n", 0),
        lambda: integer(10**5_000, "n", 0, 9),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_value_fits_a_sentence(call):
    with pytest.raises(ValueError, match=r" (must|cannot) ") as refusal:
        call()
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ranks.txt", "output must end in .csv or .parquet"),
        ("no/ranks.csv", "cannot be written"),
        ("t.csv", "t.csv is an input, and would be overwritten"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_the_work(
    tmp_path, monkeypatch, output, message
):
    monkeypatch.setattr(ranking_files, "ranked", None)
    with pytest.raises(ValueError, match=message):
        rank_files(tmp_path / "U", tmp_path / "V", tmp_path / "t.csv", output=tmp_path / output)


def test_a_held_out_item_in_training_is_refused(tmp_path, factors):
    (tmp_path / "test.csv").write_text("user,item\n0,30\n")
    seen = np.zeros((9, 50))
    seen[0, 30] = 1
    sp.save_npz(tmp_path / "train.npz", sp.csr_array(seen))
    with pytest.raises(ValueError, match="held_out must not be a training item of its own user"):
        rank_files(*(tmp_path / n for n in ("U.npy", "V.npy", "test.csv", "train.npz")))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"user": [1], "item": [1], "score": [1]}, "must have one column relevant, got user, item"),
        (
            {"user": [1], "item": [1], "score": [1], "relevant": [2]},
            "relevant must be 0 or 1, got 2",
        ),
        (
            {"user": [1], "item": [1], "score": ["x"], "relevant": [1]},
            "score must be a number, got",
        ),
        ({"user": [1], "item": [1], "score": [1], "relevant": [0]}, "must hold a relevant item"),
        ({"user": [None], "item": [1], "score": [1], "relevant": [1]}, "user must not be missing"),
        ({"user": [], "item": [], "score": [], "relevant": []}, "must hold one row or more"),
    ],
)
def test_a_bad_table_of_scores_is_refused_in_one_sentence(rows, message):
    with pytest.raises(ValueError, match=message) as refusal:
        from_scores(pd.DataFrame(rows))
    assert "\n" not in str(refusal.value)


def test_what_duplicates_may_be_is_said():
    with pytest.raises(ValueError, match="duplicates must be 'refuse', 'keep' or 'collapse', got"):
        from_scores(pd.DataFrame(), duplicates="drop")
    with pytest.raises(ValueError, match="rows must be a data frame, got list"):
        from_scores([1, 2])


@pytest.mark.parametrize("pairs", [([0, 1], [1]), ([0.7], [1]), ([[0]], [[1]])])
def test_positives_of_recbole_are_pairs_of_whole_numbers(pairs):
    with pytest.raises(ValueError, match="positive_u and positive_i must be lists of whole"):
        recbole_scores([[1.0, 0.5], [2.0, 3.0]], *pairs)
