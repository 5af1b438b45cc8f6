"""CLIP-USER: which vehicles leave which HATs, by worst-case errors."""
