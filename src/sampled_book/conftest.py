"""Examples draw figures; whatever one leaves open is closed after it."""

from collections.abc import Iterator
from importlib.util import find_spec

import matplotlib.pyplot as plt
import pytest

# They need PyTorch, and are tested in tests/peers.
collect_ignore = [] if find_spec("torch") else ["data/multvae.py", "data/sasrec.py"]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close the figures of each example: matplotlib warns once there are many."""
    yield
    plt.close("all")
