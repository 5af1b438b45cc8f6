"""Real servers on one machine, for the demonstration and the tests: Kafka, Flink and Beam's worker pool.

Everything is fetched by Maven into a cache folder, listens on 127.0.0.1 only and is stopped by its process id. None of
this is for production: there, the operator's own cluster is used (deploy/flink).
"""
