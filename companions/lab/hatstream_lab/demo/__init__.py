"""The demonstration: a made-up fleet, its feeder, and servers on this machine."""
