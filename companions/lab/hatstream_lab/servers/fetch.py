"""Fetches what the servers of the demonstration and of the tests run from, so that none of them waits for it."""

from hatstream_lab.servers.flink import job_server_classes
from hatstream_lab.servers.maven import class_path


def main() -> None:
    print("Fetching the jars of Kafka and Flink (about 200 MB, once) ...", flush=True)
    class_path("kafka")
    job_server_classes()


if __name__ == "__main__":
    main()
