"""The pure core: the record of a call, its four states, its times. No I/O, no clock, no chance."""
