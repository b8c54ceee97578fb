"""The state of calls: keys, scripts, transitions, leases and readers."""
