"""Checks whether a deployment is fit: its servers, workers, calls and records."""
