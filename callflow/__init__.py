"""callflow answers emergency calls from lifts and survives the death of any of its processes."""
