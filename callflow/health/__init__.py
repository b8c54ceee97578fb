"""Checks that say whether a deployment is fit: its servers, workers, calls and configuration."""
