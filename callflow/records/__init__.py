"""The store that lasts: whole records of complete calls, chained so that tampering shows.

What needs the database imports SQLAlchemy; `keeping`, `hashes`, `failure` and `completed_call` do
not.
"""
