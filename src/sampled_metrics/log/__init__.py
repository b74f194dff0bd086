"""Logs of evaluations: columns and their aliases, sources, checks, one compact form."""
