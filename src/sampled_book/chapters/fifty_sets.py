"""Tables, text values and the figure of the appendix on how often sampling misleads."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import metric

from ..data import sources
from ..display import figures
from ..display.tables import Frame, Lookup, Table, Texts
from ..experiments import evidence, reversals, stretch
from ..experiments.reversals import SIZES

#: The pairs that are counted, in the words of a table.
KINDS = {
    "pairs": "All pairs",
    "wide": f"Pairs that differ by more than {reversals.WIDE:.0%}",
    "significant": f"Pairs that differ by more than {reversals.SIGNIFICANT:g} standard errors",
    "neighbours": "Neighbours",
}
#: The same where space is short.
SHORT = {
    "significant": "Significant",
    "wide": "Differ > 10%",
    "pairs": "All pairs",
    "neighbours": "Neighbours",
}
#: The kinds that are counted of untuned recommenders, too.
_UNTUNED = ("wide", "pairs", "neighbours")
#: Metrics and numbers of negatives whose reports tell recommenders apart, and may be misled.
MISLED = [name for name in reversals.METRICS if name not in ("auc", "recall@50")]
#: The correction that stands for the others in the figure and the text.
BEST = evidence.FITTED_PRIOR
_WORDS = {"naive": "reported value"}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def texts(table: Frame, metric_name: str = "ndcg@10", n_negatives: int = 100) -> Texts:
    """What the text says of one metric and number of negatives.

    >>> texts(reversals.bundled())["mislead-metric"]
    'NDCG@10'
    """
    by_source = reversals.by_group(table).loc[metric_name, n_negatives]
    cell = table[(table["m"] == n_negatives) & (table["metric"] == metric_name)]
    recommenders, reported = cell["recommenders"], cell[cell["estimator"] == "naive"]
    movielens = reported[reported["data"] == "ml-1m"].iloc[0]
    found: Texts = {
        "mislead-movielens": f"{movielens['reversed']} of {movielens['pairs']}",
        "mislead-count": f"{reported['pairs'].sum():,}",
        "mislead-metric": metric(metric_name).label,
        "mislead-m": f"{n_negatives:,}",
        "mislead-sets": f"{cell['data'].nunique()}",
        "mislead-sources": f"{by_source.size}",
        "mislead-recommenders": f"{recommenders.min()} to {recommenders.max()}",
        "mislead-least": _percent(by_source.min()),
        "mislead-median": _percent(by_source.median()),
        "mislead-most": _percent(by_source.max()),
        "mislead-error": f"{100 * by_source.sem():.1f}",
    }
    counts = reported[["pairs", "reversed", "significant", "significant_reversed"]].sum()
    rest = counts["pairs"] - counts["significant"]
    rest_reversed = counts["reversed"] - counts["significant_reversed"]
    found["mislead-rest"] = f"{rest_reversed:,} of {rest:,}"
    for kind in reversals.PAIRS:
        for key, label in (("", "naive"), ("-best", BEST)):
            means: Frame = reversals.shares(table, kind, label)
            found[f"mislead-{kind}{key}"] = _percent(means.loc[metric_name, n_negatives])
    return found


def lookup(table: Frame) -> Lookup:
    """Share of reversed pairs by metric and number of negatives, a table for each kind of pair.

    >>> list(lookup(reversals.bundled()).tables)  # doctest: +NORMALIZE_WHITESPACE
    [('All pairs',), ('Pairs that differ by more than 10%',),
     ('Pairs that differ by more than 2 standard errors',), ('Neighbours',)]
    """
    tables: dict[tuple[str, ...], Table] = {}
    n_sets, n_sources = table["data"].nunique(), table["group"].nunique()
    for kind, words in KINDS.items():
        means = reversals.shares(table, kind)
        columns: dict[str, object] = {"Metric": [metric(name).label for name in means.index]}
        columns |= {f"m = {m:,}": means[m].to_numpy() for m in means.columns}
        columns["Rises in"] = reversals.rising(table, kind).reindex(means.index).to_numpy()
        caption = (
            f"{words}: share in the wrong order in expectation, by metric and number of negatives "
            f"m. Means over {n_sources} sources with {n_sets} data sets. Rises in: data sets where "
            "some larger m has a larger share than the one before."
        )
        formats = {name: ".1%" for name in columns if name.startswith("m =")}
        tables[(words,)] = Table(pd.DataFrame(columns), "", caption, formats)
    return Lookup("mislead-lookup", ["Pairs"], tables)


def corrections_table(table: Frame, metric_name: str, n_negatives: int) -> Frame:
    """Shares of reversed pairs of each correction, and in how many sources it reverses a smaller
    share of all pairs than the reported value does, as large a one, and a larger one.

    >>> corrections_table(reversals.bundled(), "ndcg@10", 100)["Value"].tolist()[:2]
    ['reported value', 'rank estimate']
    """
    rows = []
    for label in reversals.ESTIMATORS:
        row: dict[str, object] = {"Value": _WORDS.get(label, label)}
        for kind, words in SHORT.items():
            row[words] = reversals.shares(table, kind, label).loc[metric_name, n_negatives]
        counts = reversals.against_reported(table, metric_name, n_negatives, "pairs", label)
        row["Fewer, equal, more"] = ", ".join(map(str, counts.values()))
        rows.append(row)
    rows[0]["Fewer, equal, more"] = ""
    return pd.DataFrame(rows)


def stretch_tables(table: Frame) -> tuple[Frame, Frame]:
    """By metric and number of negatives: shares of reversed pairs against the exact metric and
    against that of the stretched rank, and the range of relative errors of the latter.

    >>> [part.loc["Recall@10", "m = 100"] for part in stretch_tables(stretch.bundled())]
    ['26.1% → 1.0%', '−4.2% to +2.2%']
    """
    found = stretch.summary(table)
    shares = found["exact"].map("{:.1%}".format) + " → " + found["stretched"].map("{:.1%}".format)
    signed = {
        end: found[end].map("{:+.1%}".format).str.replace("-", "−") for end in ("low", "high")
    }
    parts = (shares, signed["low"] + " to " + signed["high"])
    tables = [part.unstack("m").reindex(stretch.METRICS) for part in parts]
    for part in tables:
        part.index = pd.Index([metric(name).label for name in part.index], name="Metric")
        part.columns = pd.Index([f"m = {m:,}" for m in part.columns])
    return tables[0], tables[1]


def one_evaluation(pairs: Frame, n_negatives: int = 100) -> Frame:
    """How often the expected order is wrong, and how often that of one evaluation is, on the same
    pairs: those of :func:`~sampled_book.experiments.evidence.bundled`, data sets counting alike.

    >>> one_evaluation(evidence.bundled("pairs", ["lastfm"]))["Value"].tolist()[-1]
    'bias-variance, fitted prior'
    """
    drawn = pairs[(pairs["m"] == n_negatives) & ~pairs["replacement"]]
    settled = evidence.settled_pairs(drawn)
    settled = settled.assign(reversed=settled["exact"] * settled["expected"] < 0)
    by_set = settled.groupby(["estimator", "metric", "data"])[["reversed", "wrong"]].mean()
    means = by_set.groupby(["estimator", "metric"]).mean().unstack("metric")
    columns: dict[str, object] = {"Value": [_WORDS.get(x, x) for x in reversals.ESTIMATORS]}
    for name in evidence.JUDGED:
        for key, words in (("reversed", "expected"), ("wrong", "one evaluation")):
            values = means[key, name].reindex(list(reversals.ESTIMATORS))
            columns[f"{metric(name).label}, {words}"] = values.to_numpy()
    return pd.DataFrame(columns)


def tuning_table(tuned: Frame, untuned: Frame, metric_name: str, n_negatives: int) -> Frame:
    """Shares of reversed pairs of tuned and of untuned recommenders, on the data sets of both.

    >>> table = reversals.bundled()
    >>> tuning_table(table, table, "ndcg@10", 100)["Value"].tolist()[:2]
    ['reported value', 'reported value']
    """
    rows = []
    for label in ("naive", BEST):
        for words, table, other in (("tuned", tuned, untuned), ("untuned", untuned, tuned)):
            part = table[table["data"].isin(other["data"])]
            row: dict[str, object] = {"Value": _WORDS.get(label, label), "Recommenders": words}
            for kind in _UNTUNED:
                row[SHORT[kind]] = reversals.shares(part, kind, label).loc[metric_name, n_negatives]
            rows.append(row)
    return pd.DataFrame(rows)


def sets_table(table: Frame, metric_name: str, n_negatives: int) -> Frame:
    """Each data set: its source, users, items and recommenders, and how many pairs are reversed.

    >>> sets_table(reversals.bundled(), "ndcg@10", 100).columns.tolist()[:3]
    ['Data', 'Source', 'Users']
    """
    is_cell = (table["metric"] == metric_name) & (table["m"] == n_negatives)
    cell = table[is_cell & (table["estimator"] == "naive")].set_index("data")
    known = sources.table().set_index("name").loc[cell.index]
    found = {
        "Data": cell.index,
        "Source": cell["group"],
        "Users": known["users"],
        "Items": known["items"],
        "Recommenders": cell["recommenders"],
        "Pairs": cell["pairs"],
        "Reversed": cell["reversed"],
    }
    return pd.DataFrame(found).sort_values(["Source", "Data"])


def plot(table: Frame, metric_name: str) -> Figure:
    """Plot the share of reversed pairs against the number of negatives, for the reported value and
    for the correction `BEST`: means over sources, and all pairs of each source in light grey.

    >>> figure = plot(reversals.bundled(), "ndcg@10")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['all pairs', 'differ > 10%', 'neighbours']
    """
    figure, axes = figures.panels(1, 2, height=4.0, sharey=True)
    words = {kind: SHORT[kind].lower() for kind in ("pairs", "wide", "neighbours")}
    looks = figures.greys(words.values())
    for ax, label, title in zip(axes, ("naive", BEST), ("reported", "corrected"), strict=True):
        by_source = reversals.by_group(table, "pairs", label).loc[metric_name].unstack("m")
        ax.plot(by_source.columns, 100 * by_source.T, color="#cfcfcf", linewidth=0.8, zorder=0)
        means = {
            words[kind]: 100 * reversals.shares(table, kind, label).loc[metric_name]
            for kind in words
        }
        for name, look in looks.items():
            ax.plot(SIZES, means[name].reindex(SIZES), ms=6, **look)
        ax.set(xscale="log", title=title, xlabel="negatives", ylim=(0, None))
        ax.set_xticks(SIZES, [f"{m:,}" for m in SIZES], fontsize=10)
        ax.minorticks_off()
        if label == "naive":
            for name, line in means.items():  # on the side that a falling line leaves free
                is_below = name == words["wide"]
                place, sides = (500, ("right", "top")) if is_below else (100, ("left", "bottom"))
                style = dict(zip(("ha", "va"), sides, strict=True)) | {"fontweight": "bold"}
                ax.text(place, line[place], name, color=looks[name]["color"], fontsize=10, **style)
    axes[0].set_ylabel("pairs in the wrong order, percent")
    return figure
