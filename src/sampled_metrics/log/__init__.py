"""Logs of evaluations: columns and their aliases, tables, checks, one compact form."""
