"""Where released rows go: files and Kafka."""
