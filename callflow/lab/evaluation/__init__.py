"""Measures how well callers are understood and answered: labelled utterances in, numbers out."""
