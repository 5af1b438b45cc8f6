"""Sources of rows: growing folders, Kafka, given elements."""
