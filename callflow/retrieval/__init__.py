"""Finds the procedures that an utterance speaks for: by words alone, or by meaning as well."""
