"""Training: batches, losses, optimisers, one loop, metrics, calibration; from encoded arrays, not reports."""
