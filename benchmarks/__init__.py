"""callflow against the seed's own design and a bare Celery task, on the same work in one run."""
