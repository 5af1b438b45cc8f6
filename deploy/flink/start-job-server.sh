#!/bin/sh
# start-job-server.sh JAR FLINK_MASTER FOLDER [PORT]
# JAR: Beam's Flink job server of the very Beam version of hatstream and of the cluster's Flink version.
# FLINK_MASTER: host:port of the cluster's REST. FOLDER: takes staged programs.
# It only hands jobs over: its second compiler takes more than it brings. It listens on PORT and PORT+1 of every interface, whatever --job-host says: let a firewall close both but to this host.
set -eu
port=${4:-8099}
exec java -XX:TieredStopAtLevel=1 -jar "$1" --flink-master="$2" --job-host=127.0.0.1 --job-port="$port" --artifact-port=$((port + 1)) \
    --expansion-port=-1 --artifacts-dir="$3"
