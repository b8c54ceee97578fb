"""The proof: a whole stack under random strikes, judged by what its callers heard."""
