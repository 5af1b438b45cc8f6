"""From a period's recorded stages and all entries before them to published rows: post-processing."""
