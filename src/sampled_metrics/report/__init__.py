"""Reports of results: words, pages in HTML and figures."""
