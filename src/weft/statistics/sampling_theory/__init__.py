"""Theory of metrics on sampled negatives, from ranks alone; public as `weft.sampling`."""
