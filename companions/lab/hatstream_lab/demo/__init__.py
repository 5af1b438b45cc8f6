"""The demonstration: a made-up fleet, feeder and servers."""
