"""The road of a closed range on this machine, by a crew of processes, in memory-bounded parts."""
