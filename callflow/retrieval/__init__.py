"""Finds the scenario and the procedure passages that fit what a caller said."""
