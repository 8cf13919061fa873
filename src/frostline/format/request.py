"""The text of a request (OP_POLICY): where it stands, and what tells a torn one. No I/O, no imports.

Apart from the rest of the layout, since few targets ever need it.
"""

#: Between the live words and the text area of segment 0.
TEXT = 768
TEXT_SIZE = 256


def checksum(text: bytes) -> int:
    """Of a request's text: for each byte c, sum = (31 * sum + c) modulo 2**32."""
    total = 0
    for byte in text:
        total = (31 * total + byte) & 0xFFFFFFFF
    return total
