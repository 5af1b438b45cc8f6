"""Apache Flink as the engine of streams and jobs."""
