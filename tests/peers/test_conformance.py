"""The forty cases on the libraries that are here in the versions of the bundled table."""

from importlib.metadata import version

import pandas as pd
import pytest

from sampled_book.experiments import conformance

BUNDLED = conformance.bundled()
VERSIONS = BUNDLED.groupby("library")["version"].first()


@pytest.mark.parametrize("library", conformance.LIBRARIES)
def test_the_library_does_what_the_table_says(library):
    if library not in conformance.installed() or version(library) != VERSIONS[library]:
        pytest.skip(f"the table has {library} {VERSIONS[library]}")
    kept = BUNDLED[BUNDLED["library"] == library].reset_index(drop=True)
    pd.testing.assert_frame_equal(conformance.tried(library), kept, rtol=1e-6)
