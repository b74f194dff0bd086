"""The report: complete, self-contained, and safe whatever the recommenders are called."""

import base64
import re
import sys
from html.parser import HTMLParser
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from sampled_metrics._confidence import Assumed
from sampled_metrics.report import figures
from sampled_metrics.report.html import matrix, of_estimates
from sampled_metrics.report.text import printable, text
from sampled_metrics.results import Audit, Comparison, Estimates, Result

pytestmark = pytest.mark.words

NASTY = '<script>alert("x")</script> $\\frac{1}{0}$ & \x1b\x00 "quoted"'
COLUMNS = [
    "recommender", "metric", "reported", "estimate", "standard_error", "typical_low",
    "typical_high", "possible_low", "possible_high", "assumption", "warrant", "quote", "users",
]  # fmt: skip


def estimates(*names):
    """Estimates of two metrics for recommenders of these names."""
    rows = []
    for metric_name in ("recall@10", "auc"):
        for i, name in enumerate(names):
            ends = (0.08, 0.17, np.nan, np.nan, "", "", "")
            if metric_name == "auc":
                quote = "0.100 (0.050 to 0.350)"
                ends = (np.nan, np.nan, 0.05, 0.35, "none", "theorem", quote)
            rows.append((name, metric_name, 0.25 + i / 50, 0.1, 0.01, *ends, 1_000))
    return Estimates(pd.DataFrame(rows, columns=COLUMNS), {"assumed": Assumed(("it is so",))})


def pair_of(first, second):
    row = {
        "first": first, "second": second, "reported": 0.02, "estimate": -0.01,
        "standard_error": 0.004, "student_low": np.nan, "student_high": np.nan,
        "possible_low": -0.02, "possible_high": -0.002,
        "verdict": f"{second} beats {first}", "assumption": "decreasing at the top",
        "warrant": "theorem",
        "favoured": "", "probability": np.nan, "detectable": 0.009, "users_needed": pd.NA,
    }  # fmt: skip
    return pd.DataFrame([row])


def comparison(first, second, metric_name="recall@10", *notes):
    return Comparison(pair_of(first, second), {"metric": metric_name}, notes)


class Read(HTMLParser):
    """The tags of a page, in order, and the text in each kind of element."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.open = []
        self.texts = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_a_page_is_whole_and_asks_no_other_host():
    page = of_estimates(estimates("A", "B"), {"recall@10": comparison("A", "B")}, {"users": 7})
    read = Read(page)
    assert read.open == []
    assert read.all("html") == [{"lang": "en"}]
    assert [len(read.texts[tag]) for tag in ("title", "h1")] == [1, 1]
    addresses = [value for _, a in read.tags for n, value in a.items() if n in ("src", "href")]
    assert addresses
    assert all(str(address).startswith("data:") for address in addresses)
    assert not re.search(r"https?://|@import|url\(", re.sub(r'src="[^"]*"', "", page))
    assert "prefers-color-scheme: dark" in page
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.all(
        "meta"
    )
    assert "users: 7" in read.texts["li"]


def compared(*verdicts):
    """A comparison with these pairs and verdicts."""
    rows = [pair_of(first, second).assign(verdict=verdict) for first, second, verdict in verdicts]
    return Comparison(pd.concat(rows, ignore_index=True), {"metric": "auc"})


#: One name holds the word of a verdict, and one could break out of the page.
AMBIGUOUS = "A beats B"
THREE = compared(
    ("A", AMBIGUOUS, f"{AMBIGUOUS} beats A"), ("A", NASTY, "undecided"),
    (AMBIGUOUS, NASTY, f"{NASTY} probably beats {AMBIGUOUS}"),
)  # fmt: skip


def test_a_matrix_has_each_verdict_from_both_sides_and_most_victories_first():
    assert matrix(THREE) == {
        NASTY: ["", "probably beats", "undecided"],
        AMBIGUOUS: ["probably loses", "", "beats"],
        "A": ["undecided", "loses", ""],
    }
    assert matrix(comparison("A", "B")) == {}


def test_each_figure_has_a_text_and_each_table_a_caption_and_heads():
    page = of_estimates(estimates("A", "B"), {"recall@10": comparison("A", "B")}, {})
    read = Read(page)
    assert len(read.all("img")) == len(read.texts["figcaption"]) == 2
    assert all(image["alt"] for image in read.all("img"))
    assert len(read.all("table")) == len(read.texts["caption"]) == 3
    assert all(head["scope"] == "col" for head in read.all("th"))
    for image in read.all("img"):
        drawn = base64.b64decode(str(image["src"]).split(",")[1])
        assert ElementTree.fromstring(drawn).tag.endswith("svg")
        assert not re.search(rb'(href|src)="https?://', drawn)


def test_the_tables_hold_the_numbers_and_leave_out_what_is_missing():
    read = Read(of_estimates(estimates("A"), {}, {}))
    assert read.texts["td"].count("0.2500") == 2
    assert read.texts["td"].count("0.050 to 0.350") == 1
    assert read.texts["td"].count("0.100 (0.050 to 0.350)") == 1  # quoted
    assert read.texts["td"].count("0.080 to 0.170") == 1  # typical
    assert "nan" not in " ".join(read.texts["td"]).lower()
    assert read.texts["p"].count("95% interval: whatever the ranks.") == 1
    assert read.texts["p"].count("Assuming that it is so.") == 1


def test_a_pair_has_its_differences_with_signs():
    read = Read(of_estimates(estimates("A", "B"), {"recall@10": comparison("A", "B")}, {}))
    cells = ["B minus A", "\u22120.0200", "+0.0100 \u00b1 0.0040", "+0.002 to +0.020"]
    first_cell = read.texts["td"].index("B minus A")
    assert read.texts["td"][first_cell : first_cell + 4] == cells


def test_the_heading_of_a_range_is_its_confidence_or_large_sample():
    both = estimates("A", "B")
    assert list(both.shown) == [
        "recommender", "metric", "reported", "estimate", "typical", "95% interval", "assumption",
        "warrant", "quote",
    ]  # fmt: skip
    is_last = both.frame.index == both.frame.index[-1]
    mixed = both.frame.assign(warrant=both.frame["warrant"].mask(is_last, "large sample"))
    shown = Estimates(mixed.assign(typical_low=np.nan, typical_high=np.nan), {}).shown
    assert list(shown)[3:6] == ["estimate", "95% interval", "assumption"]
    pair = pair_of("A", "B")
    headings = {"theorem": "99.9% interval", "large sample": "large sample"}
    for warrant, heading in headings.items():
        settings = {"metric": "auc", "warrant": warrant, "confidence": 0.999}
        shown = Comparison(pair, settings).shown
        assert list(shown) == ["difference", "reported", "estimate", heading, "verdict"]


def test_a_figure_draws_the_typical_range_or_else_the_standard_error(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "intervals", lambda ax, values, possible: drawn.append(values))
    estimates("A").plot()
    ends = [values["A"]["estimate"] for values in drawn]
    assert ends == [(0.1, 0.08, 0.17), pytest.approx((0.1, 0.09, 0.11))]


def test_no_name_can_break_out():
    nasty_estimates = estimates(NASTY, "B")
    page = of_estimates(
        nasty_estimates, {"auc": comparison(NASTY, "B", "auc", NASTY)}, {"log": NASTY}
    )
    read = Read(page)
    assert read.open == []
    assert read.all("script") == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page)
    shown = [cell for cell in read.texts["td"] if "alert" in cell]
    verdict = f"B beats {printable(NASTY)} (95% confidence, if deeper ranks have fewer users)"
    assert set(shown) == {printable(NASTY), f"B minus {printable(NASTY)}", verdict}
    assert any(f"B beats {printable(NASTY)} on AUC" in sentence for sentence in read.texts["li"])


def test_pairs_whose_names_are_shortened_alike_stay_apart():
    long = ["a" * 40, "a" * 40 + "b", "B"]
    pairs = [pair_of(first, second) for first, second in combinations(long, 2)]
    ax = Comparison(pd.concat(pairs), {"metric": "auc"}).plot().axes[0]
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    assert len(set(labels)) == 3
    assert ax.lines[0].get_xydata().tolist() == [[0.01, place] for place in range(3)]
    (ranges,) = ax.collections
    drawn = [part.tolist() for part in ranges.get_segments()]
    assert drawn == [[[0.002, place], [0.02, place]] for place in range(3)]


def test_a_notebook_shows_a_table_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    nasty_comparison = comparison("A", NASTY, "auc", "a note")
    read = Read(nasty_comparison._repr_html_())
    assert read.texts["caption"] == ["metric auc"]
    assert read.texts["li"] == ["a note."]
    assert read.texts["th"] == ["difference", "reported", "estimate", "95% interval", "verdict"]
    assert Read(Audit(nasty_comparison.frame).to_html()).texts["h1"] == ["Audit"]
    with pytest.raises(ImportError, match="a report needs matplotlib"):
        nasty_comparison.to_html()


def test_a_result_is_written_as_the_name_of_the_file_says(tmp_path):
    result = Result(pd.DataFrame({"check": ["items"], "p_value": [0.25]}), notes=("a note",))
    texts = {
        ".html": result.to_html(), ".tex": result.to_latex(), ".json": result.to_text("json"),
        ".txt": "check  p_value\nitems   0.2500\n", ".csv": "check,p_value\nitems,0.25\n",
        ".md": result.to_text("markdown"),
    }  # fmt: skip
    for suffix, text_ in texts.items():
        path = result.write(tmp_path / f"result{suffix}")
        assert path.read_text(encoding="utf-8") == text_
    with pytest.raises(ValueError, match=r"must end in one of \.html, \.tex, .*, got out\.xml"):
        result.write("out.xml")


def test_numbers_for_the_eye():
    values = [0, -1_234_567, 0.12345, 1e-4, -0.0, float("inf"), pd.NA, np.float64("nan"), np.True_]
    assert [text(v) for v in values] == [
        "0", "-1,234,567", "0.1235", "1.0e-04", "0.0000", "inf", "", "", "yes",
    ]  # fmt: skip


def test_a_table_for_a_paper_has_what_latex_would_misread_escaped():
    names = {"recommender": [r"A&B_1 {50%} $x$ #2 ~^\c"], "p_value": [0.25], "separate": [True]}
    table = Result(pd.DataFrame(names)).to_latex("Of 100\\%.", "tab:a")
    assert table.splitlines() == [
        r"\begin{table}", r"\caption{Of 100\%.}", r"\label{tab:a}", r"\begin{tabular}{lrl}",
        r"\toprule", r"recommender & p value & separate \\", r"\midrule",
        r"A\&B\_1 \{50\%\} \$x\$ \#2 \textasciitilde \textasciicircum \textbackslash c"
        r" & 0.2500 & yes \\",
        r"\bottomrule", r"\end{tabular}", r"\end{table}",
    ]  # fmt: skip
