"""Apache Flink as the engine: submitting a job, asking the cluster, ending it."""
