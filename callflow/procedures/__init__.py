"""Standard operating procedures: the documents, their parser, and the library that holds them."""
