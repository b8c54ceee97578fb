"""The texts of the pages that people read, by language."""
