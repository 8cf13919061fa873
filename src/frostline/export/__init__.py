"""A session in other tools' formats: Chrome and Perfetto JSON, and into a trace of torch's profiler."""
