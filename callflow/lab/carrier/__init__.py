"""Simulates the carrier: on the wire it behaves as Twilio does, and it knows nothing of us."""
