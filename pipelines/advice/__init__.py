"""What helps a person to decide and to see: plans, drafts of specifications, pages, feeds kept."""
