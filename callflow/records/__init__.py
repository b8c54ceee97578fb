"""Keeps whole records of complete calls for good, chained so that tampering shows.

What needs the database imports SQLAlchemy; `keeping`, `hashes`, `record_errors` and `completed_call` do
not.
"""
