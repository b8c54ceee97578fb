"""Numbers about all calls together, as Prometheus and CloudWatch read them."""
