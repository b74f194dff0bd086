"""Bands of popularity: thirds of the users by how often their item occurs."""

import pandas as pd
import pytest

from sampled_metrics import readers
from sampled_metrics.cli import main


def rows(items, users=None):
    users = range(len(items)) if users is None else users
    return pd.DataFrame({"user": users, "item": items, "rank": 1})


def counts(**count_of):
    return pd.DataFrame({"item": [*count_of], "count": [*count_of.values()]})


def test_thirds_of_the_users_by_hand():
    bands = readers.popularity_bands(rows([*"aabbcc"]), counts(a=5, b=12, c=800))["popularity"]
    assert bands.tolist() == (
        ["at most 5 interactions"] * 2 + ["6 to 12"] * 2 + ["more than 12"] * 2
    )
    assert [*bands.cat.categories] == ["at most 5 interactions", "6 to 12", "more than 12"]


def test_users_count_once_however_many_recommenders_there_are():
    table = pd.concat([rows([*"abc"]), *[rows(["c"], users=[2])] * 50], ignore_index=True)
    bands = readers.popularity_bands(table, counts(a=1, b=2, c=3))["popularity"]
    assert bands.tolist() == ["at most 1 interactions", "2"] + ["more than 2"] * 51


def test_an_item_without_a_row_counts_0_and_rows_of_an_item_add_up():
    table = pd.concat([counts(a=1, b=30), counts(b=40)])
    bands = readers.popularity_bands(rows([*"abc"]), table)["popularity"]
    assert bands.tolist() == ["1", "more than 1", "at most 0 interactions"]


def test_numbers_and_text_are_the_same_items():
    table = pd.DataFrame({"iid": ["7", "8", "9"], "count": [1, 2, 3]})
    with pytest.warns(UserWarning, match="read column iid as item"):
        bands = readers.popularity_bands(rows([7, 8, 9]), table)["popularity"]
    assert bands.nunique() == 3


@pytest.mark.parametrize(
    ("table", "of", "message"),
    [
        (rows([*"ab"]).drop(columns="item"), counts(a=1), "the log must have one column item"),
        (rows([*"ab"]), counts(a=1).rename(columns={"count": "n"}), "must have one column count"),
        (rows([*"ab"]), counts(a=-1), "count must be >= 0, got -1 in row 1 of the counts"),
        (rows(["a", None]), counts(a=1), "item must not be missing, as it is in row 2 of the log"),
        (rows([*"ab"]), counts(x=1), "got 2 of 2 users in the log, and 0 of them in the counts"),
        (rows([*"ab"], users=[1, 1]), counts(a=1, b=2), "each user must have one item.* 2 of 1 us"),
        ("bundled", counts(a=1), "log must have a column item, got bundled, which has none"),
    ],
)
def test_what_has_no_bands_is_refused(table, of, message):
    with pytest.raises(ValueError, match=message):
        readers.popularity_bands(table, of)


def test_one_option_gives_a_table_by_popularity(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = rows([*"abc"] * 8).assign(rank=[1, 2, 3, 4, 5, 6] * 4)
    table.to_csv("log.csv", index=False)
    counts(a=1, b=20, c=300).to_csv("counts.csv", index=False)
    words = ["estimate", "log.csv", "--metrics", "auc", "--n-items", "50", "--n-negatives", "9",
             "--replacement", "--quiet"]  # fmt: skip
    assert main([*words, "--popularity", "counts.csv", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("group,recommender,metric,")
    assert [line.split(",")[0] for line in lines[1:]] == [
        "all", "at most 1 interactions", "2 to 20", "more than 20"]  # fmt: skip
    for options, message in (
        (["--popularity", "counts.csv", "--by", "item"], "--by must be left out beside --popular"),
        (["--popularity", "counts.csv", "--all"], "--by and --popularity must be left out beside"),
        (["--by", "age"], "--by must name one column of log.csv with the group of each user"),
        (["--popularity", "log.csv"], "log.csv must have one column count, got user, item, rank"),
        (["--by", "x", "--qrels", "q", "--corpus-size", "9"], "must be left out beside --qrels"),
    ):
        assert main([*words, *options]) == 2
        assert message in capsys.readouterr().err
