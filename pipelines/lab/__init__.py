"""What is tried and shown, and never needed by who releases: evaluation, demo, their commands."""
