"""What Twilio sends, what we answer it, and what we ask of it: the only place that knows Twilio."""
