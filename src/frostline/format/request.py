"""The text of a request (OP_POLICY, OP_LOOK): where it stands, and what tells a torn one. No I/O, no imports.

Apart from the rest of the layout, since few targets ever need it.
"""

#: Between the live words and the text area of segment 0.
TEXT = 768
TEXT_SIZE = 256

#: A look at the heap: arg0 = bytes of the text, arg1 = their checksum. The text is a LOOK_* and its settings.
OP_LOOK = 9
LOOK_CENSUS, LOOK_CYCLES, LOOK_WHY, LOOK_AUDIT = "census", "cycles", "why", "audit"
LOOKS = (LOOK_CENSUS, LOOK_CYCLES, LOOK_WHY, LOOK_AUDIT)
#: What a look found stands beside the first segment under this name, until the caller takes it.
LOOK_SUFFIX = ".look"
#: Text of a refusal: work is in flight, and the look would stop it.
LOOK_SERVING = "serving"


def checksum(text: bytes) -> int:
    """Of a request's text: for each byte c, sum = (31 * sum + c) modulo 2**32."""
    total = 0
    for byte in text:
        total = (31 * total + byte) & 0xFFFFFFFF
    return total
