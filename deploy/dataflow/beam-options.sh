#!/bin/sh
# beam-options.sh PROJECT REGION BUCKET IMAGE: prints the Beam options of a stream on Dataflow, one a line.
# BUCKET: gs://..., takes the submitted job, which holds keys: let nobody else read it.
set -eu
cat <<OPTIONS
--runner=DataflowRunner
--streaming
--enable_streaming_engine
--project=$1
--region=$2
--temp_location=$3/temp
--staging_location=$3/staging
--sdk_container_image=$4
--sdk_location=container
--job_name=hatstream
--no_use_public_ips
OPTIONS
