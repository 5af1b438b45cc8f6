"""The specification, the assembled pipelines and the command line `hatstream`."""
