"""Stands before the real one: the customer's packages (celery, redis) do not bring hiredis."""

raise ImportError("the seed is measured as `pip install celery redis` installs it")
