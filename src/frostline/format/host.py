"""Host signals (B13): what the helper samples from outside, and how its file is written.

A file ``host-PID-NS.N.jsonl`` holds one JSON value a line:

- an object is an event. ``{"frostline_host": 1, ...}`` begins a part: every sum begins at 0 again.
  ``{"process": i, ...}``, ``{"cgroup": i, ...}``, ``{"gpu": i, ...}`` introduce what has index i, or
  say what has changed of it (``"fast"``: from now on the process is in every round);
  ``{"end": i}``: the process has ended; ``{"cost": ns, "rounds": n}``: CPU time that the sampling
  has taken so far;
- an array is a round: microseconds since the round before (of the first one: since the part's
  start), 1 if everything was looked at and 0 if only what is fast was, and one array for each of
  GROUPS, empty ones at the end left out. Its rows are an index and the change of each field since
  the last row of that index, zeros at the end left out. No row: nothing has changed.

So a counter's difference between two rounds is exact, and leaving rounds out loses nothing but
the time in between. That is how a file stays within its limit.
"""

VERSION = 1
PREFIX = "host-"
LIVE = ".jsonl"
#: A finished part, or several that were thinned into one.
SEALED = ".jsonl.gz"

#: (name, what it is); all are counters but those that say that they are not.
PROCESS_FIELDS = (
    ("main_cpu_us", "main thread: time on a CPU"),
    ("main_queue_us", "main thread: time runnable and without a CPU; counted when the wait is over"),
    ("main_slices", "main thread: times it was given a CPU"),
    ("others_cpu_us", "the other threads together: time on a CPU"),
    ("others_queue_us", "the other threads together: time runnable and without a CPU"),
    ("voluntary", "main thread: switches away because it waited for something"),
    ("involuntary", "main thread: switches away because others were to run"),
    ("migrations", "main thread: moves to another CPU; always 0 where the kernel does not say"),
    ("user_ticks", "process: CPU time in user mode, 1/100 s"),
    ("system_ticks", "process: CPU time in the kernel, 1/100 s"),
    ("minor_faults", "process: page faults without a disk"),
    ("major_faults", "process: page faults that read from a disk"),
    ("read_bytes", "process: read from a disk; 0 where that may not be read"),
    ("write_bytes", "process: on their way to a disk"),
    ("disk_ticks", "process: wait for block devices, 1/100 s; 0 unless delay accounting is on"),
    ("resident_kib", "not a counter: resident memory"),
    ("threads", "not a counter: number of threads"),
    ("state", "not a counter: state of the main thread, the code of R, S, D, T, Z"),
    ("processor", "not a counter: CPU that the main thread ran on last"),
    ("private_dirty_kib", "not a counter: memory that is its alone, at most once a minute; 0: not looked at"),
)
CGROUP_FIELDS = (
    ("periods", "periods of its CPU quota"),
    ("throttled", "periods in which the quota was used up"),
    ("throttled_us", "time for which its threads were kept from running, over all CPUs"),
)
HOST_FIELDS = (
    ("cpu_some_us", "pressure: time in which somebody waited for a CPU"),
    ("io_some_us", "pressure: time in which somebody waited for a disk"),
    ("io_full_us", "pressure: time in which everybody waited for a disk"),
    ("memory_some_us", "pressure: time in which somebody waited for memory"),
    ("memory_full_us", "pressure: time in which everybody waited for memory"),
    ("user_ticks", "all CPUs: user mode, nice included, 1/100 s"),
    ("system_ticks", "all CPUs: the kernel, interrupts included, 1/100 s"),
    ("idle_ticks", "all CPUs: idle, 1/100 s"),
    ("iowait_ticks", "all CPUs: idle while somebody waited for a disk, 1/100 s"),
    ("steal_ticks", "all CPUs: taken by the hypervisor, 1/100 s"),
    ("load_1000", "not a counter: load average of one minute, thousandths"),
)
GPU_FIELDS = (
    ("sm_mhz", "not a counter: clock of the processors"),
    ("memory_mhz", "not a counter: clock of the memory"),
    ("power_mw", "not a counter: power drawn"),
    ("throttle", "not a counter: reasons for a lower clock, NVML's bits"),
    ("busy_percent", "not a counter: share of the driver's last sample in which a kernel ran"),
    ("celsius", "not a counter: temperature"),
)
GROUPS = (
    ("process", PROCESS_FIELDS),
    ("cgroup", CGROUP_FIELDS),
    ("host", HOST_FIELDS),
    ("gpu", GPU_FIELDS),
)
#: NVML's reasons for a lower clock, by bit; idle and the user's own settings are no finding.
THROTTLE = (
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "temperature (software)"),
    (0x40, "temperature (hardware)"),
    (0x80, "power brake"),
)


def file_name(pid: int, opened: int, part: int, sealed: bool = False) -> str:
    """Name of a part of the file of the helper ``pid``, opened at monotonic ns ``opened``."""
    return f"{PREFIX}{pid}-{opened}.{part}{SEALED if sealed else LIVE}"
