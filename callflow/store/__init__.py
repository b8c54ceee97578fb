"""The only place that knows Redis: keys, scripts, the record of a call and its leases."""
