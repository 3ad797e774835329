"""Side by side with other packages: the same data, one thread, in turns (``make bench-peers``)."""
