"""Who may see calls and act in them: people, their roles, passwords and sessions."""
