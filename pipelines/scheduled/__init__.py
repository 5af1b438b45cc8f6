"""The scheduled job: a closed range of slots, in memory-bounded parts."""
