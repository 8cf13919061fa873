"""In the target, on demand: what is in the heap, and which cycles feed the collector. Nothing here runs in
a callback."""
