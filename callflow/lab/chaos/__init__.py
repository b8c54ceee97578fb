"""Proves the promises: a whole stack under strikes, judged by what its callers heard."""
