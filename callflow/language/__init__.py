"""Reads what callers say, in English, Spanish and Chinese, by lexicons and rules."""
