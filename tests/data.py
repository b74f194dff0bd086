"""Which tests need MovieLens. They are skipped where it is absent, except in CI."""

import os

import pytest

from sampled_book.data.datasets import FOLDER_VARIABLE

needs_data = pytest.mark.skipif(
    not os.environ.get(FOLDER_VARIABLE) and not os.environ.get("CI"),
    reason=f"needs MovieLens in the folder that {FOLDER_VARIABLE} names",
)
