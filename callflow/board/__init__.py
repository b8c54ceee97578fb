"""The live board: what people see of all calls, and what they may do about them."""
