#!/bin/sh
# start-worker-pool.sh [HOST:PORT]: Beam's Python workers, one pool beside every task manager. Run it in the folder and
# as the user of hatstream's environment. It runs whatever it is sent, so it listens on the loopback address.
set -eu
exec "${PYTHON:-python3}" -m pipelines.runs.flink.worker_pool --address "${1:-127.0.0.1:50000}"
