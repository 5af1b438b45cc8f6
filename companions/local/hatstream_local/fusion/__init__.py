"""The jobs of local reports: fusing them, and making them from telemetry."""
