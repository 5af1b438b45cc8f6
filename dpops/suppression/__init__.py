"""CLIP-USER: which vehicles leave which HATs, its search, and the worst-case errors it weighs."""
