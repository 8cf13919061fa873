"""The laws of the block pool and of the scheduler that uses it."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.demo.blocks import BLOCK_TOKENS, Block, BlockPool, block_key
from frostline.demo.model import Rows, Transformer, choose
from frostline.demo.protocol import Sampling, Submit
from frostline.demo.scheduler import MOST_TOKENS, Scheduler

_tokens = st.lists(st.integers(0, 3), max_size=5 * BLOCK_TOKENS).map(lambda values: array("i", values))


def test_a_block_refuses_a_list() -> None:
    with pytest.raises(TypeError, match="not list"):
        block_key(0, [1] * BLOCK_TOKENS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not array"):
        block_key(0, array("q", [1] * BLOCK_TOKENS))


@given(st.integers(-(2**63), 2**63 - 1), _tokens)
def test_a_key_is_an_int64_and_depends_on_all_that_came_before(parent: int, tokens: array[int]) -> None:
    key = block_key(parent, tokens)
    assert -(2**63) <= key < 2**63
    assert key == block_key(parent, array("i", tokens))
    assert key != block_key(parent ^ 1, tokens)
    assert key != block_key(parent, tokens + array("i", [0]))


def _check(pool: BlockPool, held: list[list[Block]]) -> None:
    free = list(pool.free)
    assert len(free) == pool.free.count == len(set(free))
    counts: dict[Block, int] = {}
    for blocks in held:
        for block in blocks:
            counts[block] = counts.get(block, 0) + 1
    for block in pool.blocks:
        assert block.references == counts.get(block, 0)
    assert set(free) == {block for block in pool.blocks if not block.references}


@settings(deadline=None)
@given(st.data())
def test_no_block_is_lost_or_given_twice(data: st.DataObject) -> None:
    pool = BlockPool(24, cached=8)
    held: list[list[Block]] = []
    for _ in range(data.draw(st.integers(1, 30))):
        if held and data.draw(st.booleans()):
            pool.release(held.pop(data.draw(st.integers(0, len(held) - 1))))
        else:
            prompt = data.draw(_tokens)
            found = pool.lookup(prompt)
            assert len(found) * BLOCK_TOKENS < max(1, len(prompt))
            missing = -(-len(prompt) // BLOCK_TOKENS) - len(found)
            if missing > pool.free.count:
                pool.release(found)
                continue
            blocks = found + pool.allocate(missing)
            key = 0
            for index in range(len(prompt) // BLOCK_TOKENS):
                key = block_key(key, prompt[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS])
                pool.remember(blocks[index], key)
                if index < len(found):
                    assert blocks[index].key == key  # what was found is this prompt's own prefix
            held.append(blocks)
        _check(pool, held)
    for blocks in held:
        pool.release(blocks)
    assert pool.free.count == len(pool.blocks)


def _generate(prompts: list[array[int]], together: bool) -> dict[int, list[int]]:
    """Tokens of every prompt, all in one batch or one after the other with the prefix cache warm."""
    scheduler = Scheduler(BlockPool(1024))
    model = Transformer(seed=0)
    tokens: dict[int, list[int]] = {}
    submits = [Submit(i, prompt.tobytes(), 4, Sampling(1.0, i, 3)) for i, prompt in enumerate(prompts)]
    for group in [submits] if together else [[submit] for submit in submits]:
        for submit in group:
            scheduler.add(submit)
        while scheduler.busy:
            pieces = scheduler.schedule()
            batch = [
                Rows(
                    np.frombuffer(p.tokens, np.intc).astype(np.int64),
                    p.start,
                    np.frombuffer(p.blocks, np.int64),
                )
                for p in pieces
            ]
            assert 0 < sum(len(rows.tokens) for rows in batch) <= MOST_TOKENS
            logits = model.forward(batch)
            sampled = [
                choose(logits[row], piece.sequence, rows.end, piece.sampling)
                for row, (piece, rows) in enumerate(zip(pieces, batch, strict=True))
                if piece.sampling is not None
            ]
            for output in scheduler.update(pieces, sampled):
                tokens.setdefault(output.sampled.sequence, []).append(output.sampled.token)
    assert scheduler.pool.free.count == len(scheduler.pool.blocks)
    return tokens


@settings(deadline=None, max_examples=25)
@given(st.lists(_tokens.filter(len), min_size=1, max_size=6))
def test_tokens_do_not_depend_on_the_batch_or_the_cache(prompts: list[array[int]]) -> None:
    apart = _generate(prompts, together=False)
    assert apart == _generate(prompts, together=True)
    assert all(len(tokens) == 4 for tokens in apart.values())


def test_a_prompt_longer_than_a_step_is_computed_in_chunks() -> None:
    long = array("i", [number % 256 for number in range(MOST_TOKENS + 300)])
    together = _generate([long, long[:40]], together=True)
    assert together == _generate([long, long[:40]], together=False)


def test_an_aborted_request_gives_its_blocks_back() -> None:
    scheduler = Scheduler(BlockPool(64))
    prompt = array("i", range(100))
    for request in (1, 2):
        scheduler.add(Submit(request, prompt.tobytes(), 8, Sampling(1.0, 0, 0)))
    pieces = scheduler.schedule()
    scheduler.abort(1)
    assert scheduler.update(pieces[:1], []) == []
    scheduler.abort(2)
    assert not scheduler.busy
    assert scheduler.pool.free.count == 64
