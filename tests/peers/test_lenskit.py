"""LensKit: its own metrics of lists of all items, and ours (`make test-graphs`)."""

import pytest
from lenskit.als import ImplicitMFScorer
from lenskit.batch import recommend
from lenskit.data import ItemListCollection, UserIDKey, from_interactions_df
from lenskit.metrics import NDCG, LogRankWeight, Recall, RunAnalysis
from lenskit.pipeline import topn_pipeline


@pytest.mark.parametrize("last", [1, 3])
def test_loop_ranks_all_items_as_lenskit_does(ratings, added, column, last):
    named = ratings.rename(columns={"user": "user_id", "item": "item_id"})
    is_test = named["time"] > named.groupby("user_id")["time"].transform("max") - last
    is_known = named["item_id"].isin(named[~is_test]["item_id"])
    train, held = (named[rows][["user_id", "item_id"]] for rows in (~is_test, is_test & is_known))
    pipeline = topn_pipeline(ImplicitMFScorer(features=8, epochs=5))
    pipeline.train(from_interactions_df(train))
    test = ItemListCollection.from_df(held, UserIDKey)
    recs = recommend(pipeline, test, n_jobs=1)

    found = added("table = recs", recs=recs, test=test)["found"]

    own = RunAnalysis()
    # LensKit's default gives the second place the weight of the first one.
    for metric in (Recall(10), NDCG(10, weight=LogRankWeight(offset=1))):
        own.add_metric(metric)
    expected = own.measure(recs, test).list_summary()["mean"]
    estimates = column(found, "estimate")
    assert estimates["recall@10"] == pytest.approx(expected["Recall@10"], abs=1e-12)
    assert estimates["ndcg@10"] == pytest.approx(expected["NDCG@10"], abs=1e-12)
    assert column(found, "reported") == estimates
    assert found.frame["users"].tolist() == [held["user_id"].nunique()] * 4
    assert (held["user_id"].value_counts().max() > 1) == (last > 1)
