"""Standard operating procedures: the documents, and how a turn finds its scenario and chunks."""
