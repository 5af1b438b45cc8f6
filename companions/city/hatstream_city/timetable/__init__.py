"""What a static timetable (GTFS) says of a town and its fleet; all of it is public."""
