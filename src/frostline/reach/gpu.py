"""Clock, power and throttling of NVIDIA GPUs through NVML, where its library is there (B13)."""

import ctypes
import threading
from typing import Any

#: Seconds between two looks.
PERIOD = 1.0
_LIBRARY = "libnvidia-ml.so.1"
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_MOST = 64


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Gpus:
    """Looks at the GPUs in a thread of its own: a driver in trouble can block a call for seconds.

    ``values`` are the last rows, by device, as ``format.host.GPU_FIELDS`` has them; empty where
    there is no GPU, no library, or no answer yet.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.values: list[list[int]] = []
        self._stop = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def stop(self) -> None:
        """No further look. A call that blocks is left behind."""
        self._stop.set()

    def _work(self) -> None:
        try:
            library = ctypes.CDLL(_LIBRARY)
            handles = self._open(library)
        except (OSError, AttributeError):  # no such library, or a symbol that it lacks
            return
        while handles and not self._stop.is_set():
            self.values = [_look(library, handle) for handle in handles]
            self._stop.wait(PERIOD)

    def _open(self, library: Any) -> list[ctypes.c_void_p]:
        if library.nvmlInit_v2():
            return []
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return []
        handles, names = [], []
        for i in range(min(count.value, _MOST)):
            handle = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(i), ctypes.byref(handle)):
                continue
            name = ctypes.create_string_buffer(96)
            failed = library.nvmlDeviceGetName(handle, name, ctypes.c_uint(len(name)))
            names.append("GPU" if failed else name.value.decode("utf-8", "replace"))
            handles.append(handle)
        self.names = names
        return handles


def _look(library: Any, device: ctypes.c_void_p) -> list[int]:
    """One device; what it does not tell is 0."""

    def number(call: str, kind: Any, *arguments: int) -> int:
        value = kind()
        function = getattr(library, call, None)
        if function is None or function(device, *map(ctypes.c_uint, arguments), ctypes.byref(value)):
            return 0
        return int(value.value)

    busy = _Utilization()
    if library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(busy)):
        busy.gpu = 0
    return [
        number("nvmlDeviceGetClockInfo", ctypes.c_uint, _CLOCK_SM),
        number("nvmlDeviceGetClockInfo", ctypes.c_uint, _CLOCK_MEMORY),
        number("nvmlDeviceGetPowerUsage", ctypes.c_uint),
        number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong),
        int(busy.gpu),
        number("nvmlDeviceGetTemperature", ctypes.c_uint, 0),
    ]
