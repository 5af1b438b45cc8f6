"""The runs of the road: by a crew of processes, on an engine, without an end, in a pipeline of others."""
