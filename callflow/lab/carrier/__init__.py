"""The carrier, simulated: from the wire it behaves as Twilio does; it knows nothing of us."""
