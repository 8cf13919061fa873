"""The laws of the block pool and of the scheduler that uses it."""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.demo.blocks import BLOCK_TOKENS, Block, BlockPool, block_key
from frostline.demo.model import Rows, Transformer, choose
from frostline.demo.protocol import Output, Sampling, Submit, Transfer
from frostline.demo.scheduler import MOST_TOKENS, Scheduler

_tokens = st.lists(st.integers(0, 3), max_size=5 * BLOCK_TOKENS).map(lambda values: array("i", values))


@given(st.integers(-(2**63), 2**63 - 1), _tokens)
def test_a_key_depends_on_all_that_came_before(parent: int, tokens: array[int]) -> None:
    key = block_key(parent, tokens)
    assert key != block_key(parent ^ 1, tokens)
    assert key != block_key(parent, tokens + array("i", [0]))


class _Router:
    """What the events say that the prefix cache holds."""

    def __init__(self) -> None:
        self.known: dict[int, array[int]] = {}

    def stored(self, key: int, parent: int, tokens: array[int]) -> None:
        assert key not in self.known and key == block_key(parent, tokens.tolist())
        self.known[key] = tokens

    def removed(self, key: int) -> None:
        del self.known[key]


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


def test_two_prompts_of_one_key_share_nothing() -> None:
    """64 bits can be the same; then the tokens decide."""
    pool = BlockPool(8)
    (block,) = pool.allocate(1)
    prompt, other = array("i", [1] * (BLOCK_TOKENS + 1)), array("i", [2] * BLOCK_TOKENS)
    pool.remember(block, block_key(0, prompt[:BLOCK_TOKENS]), 0, other)
    assert pool.lookup(prompt) == []


@settings(deadline=None)
@given(st.data())
def test_no_block_is_lost_or_given_twice(data: st.DataObject) -> None:
    router = _Router()
    pool = BlockPool(24, cached=8, listener=router)
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
                tokens = prompt[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
                parent, key = key, block_key(key, tokens)
                pool.remember(blocks[index], key, parent, tokens)
                if index < len(found):
                    assert blocks[index].key == key  # what was found is this prompt's own prefix
            held.append(blocks)
        _check(pool, held)
        named = [block for block in pool.blocks if block.key is not None]
        assert router.known == {block.key: pool.tokens.get(block.number) for block in named}
    for blocks in held:
        pool.release(blocks)
    assert pool.free.count == len(pool.blocks)


def _step(scheduler: Scheduler, model: Transformer) -> list[Output]:
    """What an engine and its worker do in one step."""
    pieces = scheduler.schedule()
    for fill in scheduler.fills:
        blocks = np.frombuffer(fill.blocks, np.int64)
        model.cache.write(blocks, fill.start, fill.end, fill.keys, fill.values)
    scheduler.fills.clear()
    batch = [
        Rows(np.frombuffer(p.tokens, np.intc).astype(np.int64), p.start, np.frombuffer(p.blocks, np.int64))
        for p in pieces
    ]
    assert 0 < sum(len(rows.tokens) for rows in batch) <= MOST_TOKENS
    logits = model.forward(batch)
    sampled = [
        choose(logits[row], piece.sequence, rows.end, piece.sampling)
        for row, (piece, rows) in enumerate(zip(pieces, batch, strict=True))
        if piece.sampling is not None
    ]
    return scheduler.update(pieces, sampled)


def _submits(prompts: list[array[int]]) -> list[Submit]:
    return [Submit(i, prompt.tobytes(), 4, Sampling(1.0, i, 3)) for i, prompt in enumerate(prompts)]


def _generate(prompts: list[array[int]], together: bool) -> dict[int, list[int]]:
    """Tokens of every prompt, all in one batch or one after the other with the prefix cache warm."""
    scheduler = Scheduler(BlockPool(1024))
    model = Transformer(seed=0)
    tokens: dict[int, list[int]] = {}
    submits = _submits(prompts)
    for group in [submits] if together else [[submit] for submit in submits]:
        for submit in group:
            scheduler.add(submit)
        while scheduler.busy:
            for output in _step(scheduler, model):
                tokens.setdefault(output.sampled.sequence, []).append(output.sampled.token)
    assert scheduler.pool.free.count == len(scheduler.pool.blocks)
    return tokens


def _generate_apart(prompts: list[array[int]], blocks: int) -> dict[int, list[int]]:
    """The same, each prompt computed by one engine and gone on with by another, of so many blocks."""
    prefill, decode = Scheduler(BlockPool(1024)), Scheduler(BlockPool(blocks))
    first, second = Transformer(seed=0), Transformer(seed=0)
    tokens: dict[int, list[int]] = {}
    for submit in _submits(prompts):
        prefill.add(submit)
    while prefill.busy or decode.busy:
        for output in _step(prefill, first) if prefill.busy else []:
            sequence = prefill.running[output.sampled.sequence]
            table, end = sequence.table(), len(sequence.tokens) - 1
            keys, values = first.cache.read(np.frombuffer(table, np.int64), end)
            decode.take_over(Transfer(sequence.submit, output.sampled, output.cached, keys, values))
            prefill.abort(sequence.submit.request)
            tokens[output.sampled.sequence] = [output.sampled.token]
        for output in _step(decode, second) if decode.busy else []:
            tokens[output.sampled.sequence].append(output.sampled.token)
    for scheduler in (prefill, decode):
        assert scheduler.pool.free.count == len(scheduler.pool.blocks)
    return tokens


@settings(deadline=None, max_examples=25)
@given(st.lists(_tokens.filter(len), min_size=1, max_size=6))
def test_tokens_do_not_depend_on_the_batch_or_the_cache(prompts: list[array[int]]) -> None:
    apart = _generate(prompts, together=False)
    assert apart == _generate(prompts, together=True)
    assert all(len(tokens) == 4 for tokens in apart.values())


@settings(deadline=None, max_examples=25)
@given(st.lists(_tokens.filter(len), min_size=1, max_size=6), st.integers(6, 30))
def test_tokens_do_not_depend_on_which_engine_computed_the_prompt(
    prompts: list[array[int]], blocks: int
) -> None:
    """Shared prefixes, prompts that wait for blocks, keys and values that are there already: all the same."""
    assert _generate_apart(prompts, blocks) == _generate(prompts, together=False)


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
