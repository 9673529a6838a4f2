"""What hub and sites say to each other in a run, whatever carries it: one process, FLARE's simulator or a network."""
