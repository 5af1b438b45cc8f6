"""Jobs of local reports: making and fusing them."""
