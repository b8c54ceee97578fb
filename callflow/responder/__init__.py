"""Code that words the reply. A responder is never police, fire or medics: those are people."""
