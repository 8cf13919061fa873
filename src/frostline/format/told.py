"""What a span tells beside its times: batch size, stage, a name. Bits of its ``flags``, and its two values.

Apart from the layout's tables since only what wraps and what reads spans needs it. Imports nothing.
"""

FLAG_BATCH = 4  # value0 is a batch size
FLAG_GROUP = 8  # value1 is a name id: what it was done for (the name of a task, the template of a route)
#: Three bits of ``flags`` hold one of STAGES, by its place.
STAGE_SHIFT = 4
STAGE_MASK = 7 << STAGE_SHIFT
STAGES = ("", "prefill", "decode", "mixed", "empty")
PREFILL, DECODE, MIXED, EMPTY = range(1, 5)
ANY = FLAG_BATCH | FLAG_GROUP | STAGE_MASK

#: For ``docs/format.md``.
MEANINGS = (
    (FLAG_BATCH, "SPAN_FLAG_BATCH (value0 is a batch size)"),
    (FLAG_GROUP, "SPAN_FLAG_GROUP (value1 is a name id, of a task or a route)"),
    *(
        (stage << STAGE_SHIFT, f"stage {text} (of bits {STAGE_SHIFT} to {STAGE_SHIFT + 2})")
        for stage, text in enumerate(STAGES)
        if text
    ),
)
