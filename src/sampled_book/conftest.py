"""Examples draw figures; whatever one leaves open is closed after it."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close the figures of each example: matplotlib warns once there are many."""
    yield
    plt.close("all")
