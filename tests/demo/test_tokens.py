"""Token storage that the collector need not walk, and its two boundaries (A12)."""

from __future__ import annotations

import ast
import gc
import json
from array import array
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frostline.demo
from frostline.demo.blocks import BLOCK_TOKENS, BlockPool, block_key
from frostline.demo.events import (
    Batch,
    BlockRemoved,
    BlockStored,
    EventEncoder,
    address_of,
    check_address,
)
from frostline.demo.tokens import from_json, to_json, tokens_of
from tests.demo.serving import Server, events

IDS = list(range(BLOCK_TOKENS))
ids = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40)


def test_a_block_refuses_a_list_and_an_array_of_another_width() -> None:
    pool = BlockPool(8)
    before, block = pool.allocate(2)
    pool.remember(before, 5, 0, from_json(IDS))
    for wrong in (IDS, tuple(IDS), array("q", IDS), array("l", IDS), np.array(IDS, np.int32)):
        with pytest.raises(TypeError, match='kept as array\\("i"\\), not '):
            pool.remember(block, 6, 5, wrong)  # type: ignore[arg-type]
        assert block.key is None and pool.tokens.get(block.number) == array("i", [0] * BLOCK_TOKENS)
    for length in (0, BLOCK_TOKENS - 1, BLOCK_TOKENS + 1):
        with pytest.raises(ValueError, match=f"16 tokens, not {length}"):
            pool.remember(block, 6, 5, from_json([9] * length))
    pool.remember(block, 6, 5, from_json([7] * BLOCK_TOKENS))
    assert pool.tokens.get(block.number) == array("i", [7] * BLOCK_TOKENS)
    assert pool.tokens.get(before.number) == from_json(IDS)  # nobody else's moved


def test_a_full_pass_walks_the_same_while_the_cache_fills() -> None:
    """Of each block's tokens no object is kept: neither a list nor an array, which is tracked as well."""
    pool = BlockPool(2_000, cached=2_000)
    blocks = pool.allocate(2_000)
    kept: list[array[int]] = []

    def walked() -> int:
        gc.collect()
        return len(gc.get_objects())

    def fill(keep: bool) -> int:
        """Objects more, once a thousand blocks are named."""
        before = walked()
        for _ in range(1_000):
            block = blocks.pop()
            tokens = from_json([block.number] * BLOCK_TOKENS)
            pool.remember(block, block_key(0, tokens), 0, tokens)
            if keep:
                kept.append(tokens)
        return walked() - before

    assert fill(keep=False) < 50  # some of whoever runs the tests, and none for each block
    assert fill(keep=True) >= 900  # the control: what an array for each would be


def test_the_prefix_cache_refuses_a_list_which_would_find_nothing() -> None:
    pool = BlockPool(8)
    prompt = from_json([*IDS, 1])
    (block,) = pool.allocate(1)
    pool.remember(block, block_key(0, prompt[:BLOCK_TOKENS]), 0, prompt[:BLOCK_TOKENS])
    assert pool.lookup(prompt) == [block]
    # The reason for the refusal: the key is the same, and the tokens never are.
    assert block_key(0, IDS) == block.key and pool.tokens.get(block.number) != IDS
    with pytest.raises(TypeError, match="not list"):
        pool.lookup([*IDS, 1])  # type: ignore[arg-type]


def test_an_event_encoder_refuses_an_array() -> None:
    encoder = EventEncoder()
    wrong = BlockStored(1, 0, from_json(IDS))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list of token ids, not array"):
        encoder.encode(Batch(0, "EngineCore dp0", [BlockRemoved(2), wrong]))
    batch = Batch(0, "EngineCore dp0", [BlockRemoved(2), BlockStored(1, 0, IDS)])
    assert msgspec.msgpack.decode(encoder.encode(batch), type=Batch) == batch


def test_whatever_fails_to_encode_is_raised() -> None:
    wrong = BlockStored(object(), 0, IDS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object"):
        EventEncoder().encode(Batch(0, "", [wrong]))


@given(st.integers(-(2**63), 2**63 - 1), ids)
def test_a_key_is_an_int64_whatever_holds_the_tokens(parent: int, values: list[int]) -> None:
    key = block_key(parent, values)
    assert -(2**63) <= key < 2**63
    holders = [tuple(values), array("i", values), array("q", values)]
    for holder in (*holders, np.array(values, np.int32), np.array(values, np.int64)):
        assert block_key(parent, holder) == key
    assert block_key(parent, [*values, 0]) != key


def test_keys_are_pinned() -> None:
    """Routers and engines of other versions compute the same: to change these is to change the protocol."""
    assert block_key(0, IDS) == 974330558563370692
    assert block_key(974330558563370692, [255] * 16) == -7689766769290520806
    assert block_key(-(2**63), []) == 4345334127572641415


@given(ids)
def test_the_edges_are_inverse(values: list[int]) -> None:
    assert to_json(from_json(values)) == values
    assert tokens_of(from_json(values).tobytes()) == from_json(values)
    json.dumps(to_json(from_json(values)))


#: Where lists of ids come in or go out: a client's JSON, text, events, and the token that a worker sampled.
EDGES = {
    "app.py": {"from_json", "to_json"},
    "tokenizer.py": {"from_json"},
    "events.py": {"to_json"},
    "front_end.py": {"from_json"},
}


def test_only_the_edges_convert() -> None:
    """One type in between: no other module converts ids, or makes an array of them by another way."""
    found: dict[str, set[str]] = {}
    for path in Path(frostline.demo.__file__).parent.glob("*.py"):
        if path.name == "tokens.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if name in ("from_json", "to_json"):
                found.setdefault(path.name, set()).add(name)
            made = name == "array" and first == "i"
            assert not made or path.name == "blocks.py", f"{path.name}:{node.lineno}"  # the pool's own, zeros
            # numpy's: indices of the likeliest tokens, which are no stored ids.
            assert name != "tolist" or path.name == "model.py", f"{path.name}:{node.lineno}"
    assert found == EDGES


def test_ids_in_and_out_are_lists_of_json(server: Server) -> None:
    body = {"prompt": "frost", "max_tokens": 6, "seed": 3, "return_token_ids": True}
    whole = json.loads(server.ask("/v1/completions", body)[1])
    assert whole["prompt_token_ids"] == list(b"frost")
    out = whole["choices"][0]["token_ids"]
    assert len(out) == 6 and all(256 <= one < 512 for one in out)
    by_ids = json.loads(server.ask("/v1/completions", body | {"prompt": list(b"frost")})[1])
    assert by_ids["choices"] == whole["choices"]
    chunks = events(server.ask("/v1/completions", body | {"stream": True})[1])
    assert [one for chunk in chunks for one in chunk["choices"][0]["token_ids"]] == out
    # What was said may be said again, as ids.
    assert server.ask("/v1/completions", {"prompt": [*list(b"frost"), *out], "max_tokens": 1})[0] == 200


@pytest.mark.parametrize("prompt", [[], [512], [-1], [2**40], [1.5], [True], [[1]]])
def test_ids_that_are_none_are_refused(server: Server, prompt: object) -> None:
    status, answer = server.ask("/v1/completions", {"prompt": prompt})
    assert status == 400
    assert json.loads(answer)["error"]["message"]


@pytest.mark.parametrize(
    ("address", "third"),
    [("tcp://127.0.0.1:5557", "tcp://127.0.0.1:5559"), ("ipc:///tmp/ev", "ipc:///tmp/ev-2"), ("", "")],
)
def test_each_engine_publishes_at_an_address_of_its_own(address: str, third: str) -> None:
    assert check_address(address) == address == address_of(address, 0)
    if address:
        assert check_address(address_of(address, 2)) == third


@pytest.mark.parametrize(
    "text", ["tcp://127.0.0.1", "tcp://:5557", "tcp://h:x", "tcp://h:0", "ipc://x", "udp://h:1", "/tmp/x"]
)
def test_an_address_that_is_none_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="no tcp://HOST:PORT"):
        check_address(text)
    with pytest.raises(ValueError, match="100 bytes"):
        check_address("ipc:///" + "x" * 100)
