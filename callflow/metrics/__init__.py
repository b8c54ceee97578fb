"""Counts and measures all calls together, for Prometheus and CloudWatch."""
