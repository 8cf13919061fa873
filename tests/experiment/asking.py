"""A load that does not go by the clock: asks URL so often, and prints what the last answer told.

    asking.py URL TIMES FILE [fail-at N]

FILE counts the runs; with ``fail-at N`` the Nth run ends with 3.
"""

import json
import sys
import urllib.request
from pathlib import Path

url, times, count = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
number = len(count.read_text()) + 1 if count.exists() else 1
count.write_text("x" * number)
if sys.argv[4:] == ["fail-at", str(number)]:
    print("no answer from the moon", file=sys.stderr)
    sys.exit(3)
for _ in range(times):
    with urllib.request.urlopen(url, timeout=60) as answer:
        told = float(answer.read())
print("this line is no JSON")
# As noisy as a run may be, and the same each time.
print(json.dumps({"tag": "asked", "work": told * (1 + (number % 3) / 1000)}))
