"""Carrier simulator, chaos, demo, evaluation, embedded server: the product imports none of it."""
