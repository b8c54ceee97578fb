"""The process that the carrier talks to, which keeps nothing: webhooks, relay socket, health."""
