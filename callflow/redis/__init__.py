"""Clients for one Redis endpoint, for Sentinels and for clusters, and the scripts they run."""
