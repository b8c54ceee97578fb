"""Which number is which lift, and who is rung for it: the operator's own file, checked whole."""
