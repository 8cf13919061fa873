"""The block pool: KV memory in blocks of 16 tokens, with a prefix cache.

Every block is a real, linked Python object, as in the servers this one stands
in for: tens of thousands of them live as long as the process, and each
full pass of the collector walks them all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from struct import pack
from typing import Protocol

from frostline.demo.tokens import Tokens, stored

BLOCK_TOKENS = 16


def block_key(parent: int, tokens: Sequence[int]) -> int:
    """Name of a full block: its tokens and all that came before. Always an int64.

    The ids are hashed as int64, whatever holds them: the bytes of an ``array("i")`` are not those of an
    ``array("q")``, and a router that knows the tokens as a list must come to the same key (A12).
    """
    digest = blake2b(pack(f"<{len(tokens)}q", *tokens), digest_size=8, key=pack("<q", parent))
    return int.from_bytes(digest.digest(), "little", signed=True)


class Block:
    """Room for 16 tokens. Idle blocks are linked into the pool's list of free ones."""

    __slots__ = ("key", "next", "number", "previous", "references")

    def __init__(self, number: int) -> None:
        self.number = number
        self.references = 0
        self.key: int | None = None  # set once full and computed; kept while idle
        self.previous: Block | None = None
        self.next: Block | None = None


class BlockTokens:
    """What every full block holds, in one array for all of them (A12).

    A list for each would be an object more for each full pass, and 16 ids to look at. An array for each has
    nothing to look at, but it is walked, too: CPython 3.10 and later track arrays.
    """

    def __init__(self, blocks: int) -> None:
        self._all = array("i", bytes(4 * BLOCK_TOKENS * blocks))

    def put(self, block: int, tokens: Tokens) -> None:
        """
        Raises:
            TypeError: a list was given.
            ValueError: they are not a whole block.
        """
        if len(stored(tokens)) != BLOCK_TOKENS:
            raise ValueError(f"a full block has {BLOCK_TOKENS} tokens, not {len(tokens)}")
        first = block * BLOCK_TOKENS
        self._all[first : first + BLOCK_TOKENS] = tokens

    def get(self, block: int) -> Tokens:
        """A copy; of a block that was never full, zeros."""
        first = block * BLOCK_TOKENS
        return self._all[first : first + BLOCK_TOKENS]


class Listener(Protocol):
    """Who is told what the prefix cache holds."""

    def stored(self, key: int, parent: int, tokens: Tokens) -> None: ...

    def removed(self, key: int) -> None: ...


class FreeList:
    """Idle blocks in the order of reuse; removal from the middle is one step."""

    def __init__(self) -> None:
        self._head = Block(-1)
        self._tail = Block(-2)
        self._head.next = self._tail
        self._tail.previous = self._head
        self.count = 0

    def __iter__(self) -> Iterator[Block]:
        block = self._head.next
        while block is not None and block is not self._tail:
            yield block
            block = block.next

    def _insert(self, block: Block, left: Block, right: Block) -> None:
        block.previous, block.next = left, right
        left.next = right.previous = block
        self.count += 1

    def append(self, block: Block) -> None:
        """To be reused last."""
        left = self._tail.previous
        assert left is not None
        self._insert(block, left, self._tail)

    def append_left(self, block: Block) -> None:
        """To be reused first."""
        right = self._head.next
        assert right is not None
        self._insert(block, self._head, right)

    def remove(self, block: Block) -> None:
        left, right = block.previous, block.next
        assert left is not None and right is not None, "the block is not idle"
        left.next, right.previous = right, left
        block.previous = block.next = None
        self.count -= 1

    def pop_left(self) -> Block:
        block = self._head.next
        assert block is not None and block is not self._tail, "the caller checks `count`"
        self.remove(block)
        return block


class BlockPool:
    """Gives blocks out, takes them back, and finds prompts it has seen.

    Args:
        blocks: how many there are.
        cached: most blocks the prefix cache may name. Without a bound the pool would
            touch new memory for as long as it runs, and a soak could not be told from a leak.
        listener: is told of each block that the prefix cache begins or ceases to name.
    """

    def __init__(self, blocks: int, cached: int = 4096, listener: Listener | None = None) -> None:
        self.blocks = [Block(number) for number in range(blocks)]
        self.free = FreeList()
        for block in self.blocks:
            self.free.append(block)
        self.tokens = BlockTokens(blocks)
        self._cached: dict[int, Block] = {}  # oldest first
        self._cached_limit = cached
        self._listener = listener

    def lookup(self, prompt: Tokens) -> list[Block]:
        """The longest cached prefix, in whole blocks, each now referenced.

        The last token is never served from the cache: something must be computed
        for the first sampled token to come from.
        """
        found: list[Block] = []
        parent = 0
        stored(prompt)  # a list has the same keys but equals no block's tokens: it would find nothing
        for start in range(0, len(prompt) - BLOCK_TOKENS, BLOCK_TOKENS):
            tokens = prompt[start : start + BLOCK_TOKENS]
            parent = block_key(parent, tokens)
            block = self._cached.get(parent)
            # 64 bits can be the same for two prompts; whoever shares a block has its very tokens.
            if block is None or self.tokens.get(block.number) != tokens:
                break
            self._cached[parent] = self._cached.pop(parent)  # now the youngest
            if block.references == 0:
                self.free.remove(block)
            block.references += 1
            found.append(block)
        return found

    def allocate(self, count: int) -> list[Block]:
        """Empty blocks; the caller has checked ``free.count``."""
        taken = []
        for _ in range(count):
            block = self.free.pop_left()
            if block.key is not None:
                self._forget(block.key, block)
            block.references = 1
            taken.append(block)
        return taken

    def remember(self, block: Block, key: int, parent: int, tokens: Tokens) -> None:
        """``block`` is full and computed: later prompts may share it.

        Args:
            parent: the key of the block before it, 0 for the first.

        Raises:
            TypeError: a list was given.
        """
        if block.key is not None or key in self._cached:
            return
        self.tokens.put(block.number, tokens)
        block.key = key
        self._cached[key] = block
        if self._listener is not None:
            self._listener.stored(key, parent, tokens)
        if len(self._cached) > self._cached_limit:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        key, block = next(iter(self._cached.items()))
        if block.references:
            return  # in use; it ages until it is idle
        self._forget(key, block)
        self.free.remove(block)
        self.free.append_left(block)

    def _forget(self, key: int, block: Block) -> None:
        del self._cached[key]
        block.key = None
        if self._listener is not None:
            self._listener.removed(key)

    def release(self, blocks: list[Block]) -> None:
        """Give back, the last first: the start of a prompt is the likeliest to be asked for again."""
        for block in reversed(blocks):
            block.references -= 1
            if block.references:
                continue
            if block.key is None:
                self.free.append_left(block)
            else:
                self.free.append(block)
