"""The stream: the road without an end, its health, and the engine it runs on."""
