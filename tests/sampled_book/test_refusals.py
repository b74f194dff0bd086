"""What is refused is said in one sentence, however long the value."""

import pytest

from sampled_book.data import study
from sampled_book.experiments import decoys

BIG, HUGE = "x" * 3_000_000, 10**400


@pytest.mark.parametrize(
    "call",
    [
        lambda: decoys.pmf(3, HUGE),
        lambda: decoys.at_least([BIG], 1),
        lambda: decoys.misclassified(HUGE, 0.1),
        lambda: study.bundled_study(BIG),
    ],
)
def test_what_is_shown_of_a_value_fits_a_sentence(call):
    with pytest.raises(ValueError, match=r" (must|cannot) ") as refusal:
        call()
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)
