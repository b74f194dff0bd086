"""Reports of results: pages in HTML and figures."""
