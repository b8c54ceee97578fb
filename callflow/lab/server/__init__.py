"""The Redis-compatible server that the demo, the tests and `callflow up` start for themselves."""
