"""Continuous batching, in simple form: what to compute in the next step.

Every step takes one token for each sequence that is producing, and fills what is
left of the budget with prompts, in the order of arrival and in chunks. A sequence
is admitted when blocks for its whole length are free, so none is ever preempted:
simpler than the servers this stands in for, and it wastes some memory.
"""

from __future__ import annotations

from array import array
from collections import deque

from frostline.demo.blocks import BLOCK_TOKENS, Block, BlockPool, block_key
from frostline.demo.protocol import Fill, Output, Piece, Sampled, Submit, Transfer
from frostline.demo.tokens import tokens_of

MOST_SEQUENCES = 32
MOST_TOKENS = 512


class Sequence:
    """One request while the engine knows it."""

    __slots__ = ("blocks", "cached", "computed", "handed", "key", "named", "samples", "submit", "tokens")

    def __init__(self, submit: Submit) -> None:
        self.submit = submit
        self.tokens = tokens_of(submit.prompt)  # the prompt, then what was produced
        self.blocks: list[Block] = []
        self.computed = 0  # tokens whose keys and values are in the cache
        self.cached = 0  # of these, found there at admission
        self.named = 0  # blocks given to the prefix cache so far
        self.key = 0  # of the last of those
        self.samples: list[Sampled] = []
        self.handed: Transfer | None = None  # computed elsewhere, and not yet in this cache

    @property
    def length(self) -> int:
        """Tokens when finished."""
        return len(tokens_of(self.submit.prompt)) + self.submit.limit

    def table(self) -> bytes:
        """Its block table, as it travels."""
        return array("q", [block.number for block in self.blocks]).tobytes()


class Scheduler:
    """Sequences waiting and running, and the pool they share."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: dict[int, Sequence] = {}
        self.finished: list[Sequence] = []  # since the engine last took them
        self.fills: list[Fill] = []  # for the next step: keys and values that came from elsewhere

    @property
    def busy(self) -> bool:
        return bool(self.running or self.waiting)

    def add(self, submit: Submit) -> None:
        self.waiting.append(Sequence(submit))

    def take_over(self, transfer: Transfer) -> None:
        """Go on with a request whose prompt another engine has computed."""
        sequence = Sequence(transfer.submit)
        sequence.tokens.append(transfer.first.token)
        sequence.samples.append(transfer.first)
        sequence.cached = transfer.cached
        sequence.handed = transfer
        self.waiting.append(sequence)

    def abort(self, request: int) -> None:
        """The client left, or another engine goes on with it."""
        self.waiting = deque(one for one in self.waiting if one.submit.request != request)
        if request in self.running:
            self._finish(self.running[request])

    def schedule(self) -> list[Piece]:
        """The next step, empty when nothing can run."""
        pieces: list[Piece] = []
        budget = MOST_TOKENS
        for sequence in self.running.values():
            budget = self._take(sequence, budget, pieces)
        while self.waiting and budget and len(self.running) < MOST_SEQUENCES:
            if not self._admit(self.waiting[0]):
                break
            budget = self._take(self.waiting.popleft(), budget, pieces)
        return pieces

    def _admit(self, sequence: Sequence) -> bool:
        found = self.pool.lookup(sequence.tokens)
        missing = -(-sequence.length // BLOCK_TOKENS) - len(found)
        if missing > self.pool.free.count:
            self.pool.release(found)
            return False
        sequence.blocks = found + self.pool.allocate(missing)
        sequence.computed = len(found) * BLOCK_TOKENS
        sequence.named = len(found)
        sequence.key = (found[-1].key or 0) if found else 0
        if sequence.handed is None:
            sequence.cached = sequence.computed
        else:
            self._fill(sequence, sequence.handed)
        self.running[sequence.submit.request] = sequence
        return True

    def _fill(self, sequence: Sequence, handed: Transfer) -> None:
        """All but the token sampled last is filled in, as far as this cache does not have it already."""
        end = len(sequence.tokens) - 1
        self.fills.append(Fill(sequence.table(), sequence.computed, end, handed.keys, handed.values))
        sequence.computed = end
        sequence.handed = None
        self._name_full_blocks(sequence)  # fills come before pieces, so the next one may share them at once

    @staticmethod
    def _take(sequence: Sequence, budget: int, pieces: list[Piece]) -> int:
        start = sequence.computed
        tokens = sequence.tokens[start : start + budget]
        if not tokens:
            return budget
        ends = start + len(tokens) == len(sequence.tokens)
        sampling = sequence.submit.sampling if ends else None
        pieces.append(Piece(sequence.submit.request, start, tokens.tobytes(), sequence.table(), sampling))
        return budget - len(tokens)

    def update(self, pieces: list[Piece], sampled: list[Sampled]) -> list[Output]:
        """Take in what a step computed; returns what goes to the clients."""
        for piece in pieces:
            sequence = self.running.get(piece.sequence)
            if sequence is not None:
                sequence.computed = piece.start + len(piece.tokens) // sequence.tokens.itemsize
                self._name_full_blocks(sequence)
        outputs = []
        for sample in sampled:
            sequence = self.running.get(sample.sequence)
            if sequence is None:
                continue  # aborted while the step ran
            sequence.tokens.append(sample.token)
            sequence.samples.append(sample)
            ended = len(sequence.samples) >= sequence.submit.limit
            outputs.append(Output(sample, "length" if ended else None, sequence.cached))
            if ended:
                self._finish(sequence)
        return outputs

    def _name_full_blocks(self, sequence: Sequence) -> None:
        while (sequence.named + 1) * BLOCK_TOKENS <= sequence.computed:
            first = sequence.named * BLOCK_TOKENS
            tokens = sequence.tokens[first : first + BLOCK_TOKENS]
            parent, sequence.key = sequence.key, block_key(sequence.key, tokens)
            self.pool.remember(sequence.blocks[sequence.named], sequence.key, parent, tokens)
            sequence.named += 1

    def _finish(self, sequence: Sequence) -> None:
        del self.running[sequence.submit.request]
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        self.finished.append(sequence)
