"""Keeps whole records of complete calls for good, chained so that tampering shows.

Of these modules `database`, `record_store`, `search` and `verify` need SQLAlchemy.
"""
