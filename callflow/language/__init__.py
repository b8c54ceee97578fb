"""What one utterance of a caller tells: its language, facts, dangers, and whether all is over."""
