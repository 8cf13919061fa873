"""The stream collector: what the reader gets is what the producer gave, however deep the backlog (A13)."""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.demo.__main__ import main as demo_main
from frostline.demo.collector import MERGES, Chunk, Collector, Quadratic, enter, leave, merge
from frostline.demo.protocol import Candidate, Sampled

#: Text of one, two, three and four bytes a character, and none.
TEXTS = (None, "", "a", "ba ", "é", "雪", "🧊", "e\u0301", "\x00", "or ")
BOTH: tuple[Callable[[], Collector], ...] = (Collector, Quadratic)


def chunk(number: int, text: str | None, tokens: int = 1, finish: str | None = None) -> Chunk:
    """A chunk of a producer; every part of it can be told from those of the others."""
    ids = array("i", range(number, number + tokens))
    samples = [Sampled(1, one, -0.5, [Candidate(one, -0.5, [one % 256])]) for one in ids]
    return {"ids": ids, "text": text, "samples": samples, "finish": finish, "cached": number}


def read(collector: Collector) -> Chunk:
    """What waits; something does."""
    found = asyncio.run(asyncio.wait_for(collector.get(), 10))
    assert found is not None
    return found


def whole(chunks: list[Chunk]) -> tuple[bytes, bytes, list[Sampled], str | None, int]:
    """The bytes of a stream, however it was cut: text, ids, samples, why it ended, cached tokens."""
    return (
        "".join(one["text"] or "" for one in chunks).encode("utf-8", "surrogatepass"),
        b"".join(one["ids"].tobytes() for one in chunks),
        list(itertools.chain.from_iterable(one["samples"] for one in chunks)),
        next((one["finish"] for one in reversed(chunks) if one["finish"]), None),
        chunks[-1]["cached"],
    )


def snapshot(chunks: list[Chunk]) -> list[tuple[bytes, list[Sampled], str | None]]:
    return [(one["ids"].tobytes(), list(one["samples"]), one["text"]) for one in chunks]


@pytest.mark.parametrize("make", BOTH)
def test_byte_identical_at_depths_1_to_500(make: Callable[[], Collector]) -> None:
    random = Random(13)
    for depth in range(1, 501):
        chunks = [chunk(3 * n, random.choice(TEXTS), random.randrange(4)) for n in range(depth)]
        chunks[-1]["finish"] = "length"
        before = snapshot(chunks)
        collector = make()
        for one in chunks:
            collector.put(one)
        assert whole([read(collector)]) == whole(chunks), depth
        assert snapshot(chunks) == before, depth  # and the producer's are his own


@pytest.mark.parametrize("make", BOTH)
def test_byte_identical_over_4000_random_sequences_of_puts_and_reads(make: Callable[[], Collector]) -> None:
    async def one_sequence(seed: int) -> int:
        random = Random(seed)
        collector, chunks, got = make(), [], []
        lag = random.random()
        for number in range(random.randrange(1, 60)):
            chunks.append(chunk(number * 5, random.choice(TEXTS), random.randrange(6)))
            before = snapshot(chunks[-1:])
            collector.put(chunks[-1])
            if random.random() > lag:
                got.append(await collector.get())
            assert snapshot(chunks[-1:]) == before
        collector.put(chunk(1_000, "end", 1, "length"))
        chunks.append(chunk(1_000, "end", 1, "length"))
        collector.end()
        while (last := await collector.get()) is not None:
            got.append(last)
        assert whole(got) == whole(chunks), seed
        return len(chunks) - len(got)

    async def all_sequences() -> int:
        return sum([await one_sequence(seed) for seed in range(4_000)])

    assert asyncio.run(all_sequences()) > 20_000  # chunks that were merged: the laggards were laggards


part = st.tuples(st.one_of(st.none(), st.text(max_size=3)), st.integers(0, 3), st.booleans())


@given(st.lists(part, min_size=1, max_size=30))
def test_however_it_is_cut(parts: list[tuple[str | None, int, bool]]) -> None:
    """Any text, any number of ids, read after any of them."""

    async def run() -> None:
        for make in BOTH:
            collector, chunks, got = make(), [], []
            for number, (text, tokens, reads) in enumerate(parts):
                chunks.append(chunk(number * 4, text, tokens))
                collector.put(chunks[-1])
                if reads:
                    got.append(await collector.get())
            collector.end()
            while (last := await collector.get()) is not None:
                got.append(last)
            assert whole(got) == whole(chunks)

    asyncio.run(run())


def test_what_waits_shares_nothing_with_the_producer() -> None:
    """Copied on entry always: also the first chunk, to which nothing has been merged yet."""
    first, second = chunk(0, "a", 2), chunk(10, "b", 2)
    waiting = enter(first)
    first["ids"].append(99)
    first["samples"].clear()
    merge(waiting, second)
    second["ids"].append(98)
    second["samples"].clear()
    got = leave(waiting)
    assert got["ids"] == array("i", [0, 1, 10, 11])
    assert [one.token for one in got["samples"]] == [0, 1, 10, 11]
    # And the other way round: what the reader does with his is nothing to the producer.
    got["ids"].append(97)
    assert (first["ids"], second["ids"]) == (array("i", [0, 1, 99]), array("i", [10, 11, 98]))


def test_a_delta_without_text_keeps_the_text_so_far() -> None:
    collector = Collector()
    for number, text in enumerate(("so ", None, "far", None, "", None)):
        collector.put(chunk(number, text))
    bare = chunk(6, None)
    del bare["text"]  # type: ignore[misc]
    collector.put(bare)
    got = read(collector)
    assert got["text"] == "so far"
    assert got["ids"] == array("i", range(7))


WRONG: dict[str, Callable[[Any], Any]] = {
    "text that is bytes": lambda one: one | {"text": b"x"},
    "text that is a number": lambda one: one | {"text": 1},
    "ids that are a list": lambda one: one | {"ids": [1, 2]},
    "ids of another width": lambda one: one | {"ids": array("q", [1, 2])},
    "ids that are none": lambda one: one | {"ids": None},
    "samples that are none": lambda one: one | {"samples": None},
    "samples of another kind": lambda one: one | {"samples": iter([1])},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_type_error_in_the_middle_leaves_all_that_waits_intact(name: str) -> None:
    collector = Collector()
    wrong = WRONG[name](chunk(50, "wrong", 2, "length"))
    with pytest.raises(TypeError):
        collector.put(wrong)
    good = [chunk(number, text) for number, text in enumerate(("kept ", "as ", "it was"))]
    for one in good:
        collector.put(one)
        with pytest.raises(TypeError):
            collector.put(wrong)
    assert whole([read(collector)]) == whole(good)


def test_what_never_went_through_the_entry_raises_key_error() -> None:
    """Its parts may be the producer's own: to extend them would be to change his."""
    producers = chunk(0, "a")
    before = snapshot([producers])
    with pytest.raises(KeyError):
        merge(producers, chunk(1, "b"))  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        leave(producers)  # type: ignore[arg-type]
    assert snapshot([producers]) == before


def test_nothing_is_held_back_from_a_reader_who_keeps_up() -> None:
    async def run() -> None:
        collector = Collector()
        reader = asyncio.create_task(collector.get())
        for number in range(5):
            await asyncio.sleep(0)  # the reader waits now
            collector.put(chunk(number, str(number)))
            got = await reader
            assert got is not None and got["text"] == str(number)
            reader = asyncio.create_task(collector.get())
        await asyncio.sleep(0)
        collector.end()
        assert await reader is None
        assert await collector.get() is None

    asyncio.run(run())


def test_the_end_does_not_overtake_what_waits() -> None:
    async def run() -> None:
        for make in MERGES.values():
            waits = make()
            waits.put(chunk(0, "last", 1, "length"))
            waits.end()
            got = await waits.get()
            assert got is not None and got["text"] == "last"
            assert await waits.get() is None

    asyncio.run(run())


def test_the_command_knows_every_way_to_merge(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        demo_main(["serve", "--merge", "none-of-them"])
    said = capsys.readouterr().err
    assert all(name in said for name in MERGES)
