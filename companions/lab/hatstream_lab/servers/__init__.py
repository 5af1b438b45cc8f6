"""Real servers for demonstration and tests, on one machine.

Maven fetches Kafka and Flink into a cache folder. Every server listens on 127.0.0.1 only and is stopped by its process
id. None is for production: there, the operator's own cluster is used (deploy/flink).
"""
