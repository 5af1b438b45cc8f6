"""What a specification would give, from counts and other public knowledge alone."""
