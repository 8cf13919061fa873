"""The reference server: a stand-in for an LLM server, small enough for a laptop without a GPU.

It has the structure that such servers share (a front end, an engine core and
workers, all *spawned*, each with most of a million long-lived objects) and it
adopts Frostline as any program would: ``install``, ``startup_complete``,
``shutdown``. The model is random numbers; the heaps, the processes, the
scheduling and the collector's passes are real. What it shows is the mechanism.
Claims about other people's servers are made on other people's servers.

Read in this order: ``protocol`` (what is said), ``tokens``, ``blocks`` and
``scheduler`` (what is kept and decided), ``model`` and ``worker`` (what is
computed), ``engine``, ``workers``, ``lockstep`` and ``disaggregated`` (ranks, and
engines of another kind), ``collector``, ``app`` and ``front_end`` (what streams),
``events`` (what the prefix cache tells), ``heap`` (what the collector has to
walk), ``names`` and ``launch`` (how processes are called, start and end),
``drive`` (the load), ``show``. docs/refserver.md says what each part teaches.
"""
