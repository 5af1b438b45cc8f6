"""The runs of the road: closed on this machine or an engine, without an end, in a pipeline of others."""
