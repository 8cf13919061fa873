"""A small transformer in numpy with a paged KV cache. Its weights are random.

Everything is float64 and the logits are rounded, so that a sequence's tokens do
not depend on which other sequences share its batch: the order of a sum's terms
changes the last bits only, and those are rounded away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frostline.demo.blocks import BLOCK_TOKENS
from frostline.demo.protocol import Candidate, Sampled, Sampling
from frostline.demo.tokenizer import BYTES, SYLLABLE_BYTES, VOCABULARY

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

WIDTH = 64
HEADS = 4
HEAD = WIDTH // HEADS
LAYERS = 2
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Rows:
    """The part of a batch that belongs to one sequence."""

    tokens: Integers
    start: int
    blocks: Integers

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


class KeyValueCache:
    """Keys and values of every layer, by block. Grows to the highest block that was used."""

    def __init__(self) -> None:
        self.keys = np.zeros((LAYERS, 0, HEAD))
        self.values = np.zeros((LAYERS, 0, HEAD))

    def reserve(self, blocks: int) -> None:
        have = self.keys.shape[1]
        need = blocks * BLOCK_TOKENS
        if need <= have:
            return
        more = np.zeros((LAYERS, max(need, 2 * have) - have, HEAD))
        self.keys = np.concatenate([self.keys, more], axis=1)
        self.values = np.concatenate([self.values, more], axis=1)

    def read(self, blocks: Integers, end: int) -> tuple[bytes, bytes]:
        """Keys and values of a sequence's positions 0 to ``end``: float64, (layers, end, head)."""
        slots = slots_of(blocks, end)
        return self.keys[:, slots].tobytes(), self.values[:, slots].tobytes()

    def write(self, blocks: Integers, start: int, end: int, keys: bytes, values: bytes) -> None:
        """What `read` gave elsewhere, from position ``start`` on; before it the blocks may be shared."""
        self.reserve(1 + int(blocks.max()))
        slots = slots_of(blocks, end)[start:]
        shape = LAYERS, end, HEAD
        self.keys[:, slots] = np.frombuffer(keys).reshape(shape)[:, start:]
        self.values[:, slots] = np.frombuffer(values).reshape(shape)[:, start:]


def slots_of(blocks: Integers, end: int) -> Integers:
    """Where the cache holds the positions 0 to ``end`` of a sequence."""
    slots = blocks[:, None] * BLOCK_TOKENS + np.arange(BLOCK_TOKENS)
    return slots.reshape(-1)[:end]


class Transformer:
    """Two layers, four heads that share one key and value (multi-query attention)."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)

        def matrix(rows: int, columns: int) -> Floats:
            drawn: Floats = random.standard_normal((rows, columns)) / np.sqrt(rows)
            return drawn

        self.embedding = random.standard_normal((VOCABULARY, WIDTH))
        self.query = [matrix(WIDTH, WIDTH) for _ in range(LAYERS)]
        self.key = [matrix(WIDTH, HEAD) for _ in range(LAYERS)]
        self.value = [matrix(WIDTH, HEAD) for _ in range(LAYERS)]
        self.out = [matrix(WIDTH, WIDTH) for _ in range(LAYERS)]
        self.up = [matrix(WIDTH, 4 * WIDTH) for _ in range(LAYERS)]
        self.down = [matrix(4 * WIDTH, WIDTH) for _ in range(LAYERS)]
        self.unembedding = 3 * matrix(WIDTH, VOCABULARY)
        self.frequencies = 1.0 / 10_000 ** (np.arange(WIDTH // 2) / (WIDTH // 2))
        self.cache = KeyValueCache()

    def forward(self, batch: list[Rows]) -> Floats:
        """Logits after the last token of each sequence, one row each."""
        self.cache.reserve(1 + max(int(rows.blocks.max()) for rows in batch))
        contexts = [slots_of(rows.blocks, rows.end) for rows in batch]
        written = np.concatenate([slots[rows.start :] for slots, rows in zip(contexts, batch, strict=True)])
        edges = np.cumsum([0] + [len(rows.tokens) for rows in batch])
        positions = np.concatenate([np.arange(rows.start, rows.end) for rows in batch])
        angles = positions[:, None] * self.frequencies
        x = self.embedding[np.concatenate([rows.tokens for rows in batch])]
        x = x + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        for layer in range(LAYERS):
            h = _normal(x)
            self.cache.keys[layer, written] = h @ self.key[layer]
            self.cache.values[layer, written] = h @ self.value[layer]
            query = (h @ self.query[layer]).reshape(-1, HEADS, HEAD)
            mixed = np.empty_like(x)
            for index, context in enumerate(contexts):
                first, last = edges[index], edges[index + 1]
                mixed[first:last] = self._attend(layer, query[first:last], context)
            x = x + mixed @ self.out[layer]
            x = x + np.maximum(_normal(x) @ self.up[layer], 0) @ self.down[layer]
        logits = _normal(x[edges[1:] - 1]) @ self.unembedding
        logits[:, :BYTES] = -np.inf  # only syllables are ever produced
        return np.round(logits, 6)

    def _attend(self, layer: int, query: Floats, context: Integers) -> Floats:
        rows, length = len(query), len(context)
        keys = self.cache.keys[layer, context]
        scores = query @ keys.T / np.sqrt(HEAD)
        if rows > 1:
            ahead = np.arange(length)[None, :] > np.arange(length - rows, length)[:, None]
            scores[np.broadcast_to(ahead[:, None, :], scores.shape)] = -np.inf
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        attended: Floats = scores @ self.cache.values[layer, context]
        return attended.reshape(rows, WIDTH)


def _normal(x: Floats) -> Floats:
    scaled: Floats = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    return scaled


def _uniform(seed: int, position: int) -> float:
    """A number in [0, 1) from a seed and a position alone (splitmix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + (position + 1) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


def choose(logits: Floats, sequence: int, position: int, sampling: Sampling) -> Sampled:
    """The next token of one sequence, from its row of logits."""
    syllables = logits[BYTES:]
    logprobs = syllables - syllables.max()
    logprobs -= np.log(np.exp(logprobs).sum())
    if sampling.temperature > 0:
        weights = np.exp(logprobs / sampling.temperature)
        edges = np.cumsum(weights / weights.sum())
        index = int(np.searchsorted(edges, _uniform(sampling.seed, position), side="right"))
        index = min(index, len(edges) - 1)  # the sum may end a rounding error below 1
    else:
        index = int(logprobs.argmax())
    best: list[int] = []
    if sampling.candidates:
        best = np.argsort(-logprobs, kind="stable")[: sampling.candidates].tolist()
    candidates = [
        Candidate(BYTES + rank, round(float(logprobs[rank]), 4), list(SYLLABLE_BYTES[rank])) for rank in best
    ]
    return Sampled(sequence, BYTES + index, round(float(logprobs[index]), 4), candidates)
