"""Where rows come from: growing folders, Kafka, elements known beforehand."""
