"""The HTTP side: OpenAI-style routes, streamed as server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from frostline.demo.collector import Chunk
from frostline.demo.protocol import Sampled, Sampling
from frostline.demo.tokenizer import VOCABULARY, decode, encode
from frostline.demo.tokens import Tokens, from_json, to_json

if TYPE_CHECKING:
    from frostline.demo.front_end import EngineClient, Stream

MODEL = "frostline-stand-in"
#: Longest prompt and answer together, in tokens.
CONTEXT = 2048
Json: TypeAlias = dict[str, Any]
#: (object's name, text, what was sampled, whether logprobs are wanted, finish reason) -> the body
Shape: TypeAlias = Callable[[str, str, list[Sampled], bool, str | None], Json]

_encode = msgspec.json.Encoder().encode


class Message(msgspec.Struct):
    role: str
    content: str


class Common(msgspec.Struct, kw_only=True):
    """What both kinds of request may say. Unknown fields are ignored, as clients send many."""

    model: str = MODEL
    max_tokens: int = 16
    temperature: float = 1.0
    seed: int = 0
    stream: bool = False
    return_token_ids: bool = False


class CompletionRequest(Common, kw_only=True):
    prompt: str | list[int]  # text, or token ids
    logprobs: int | None = None


class ChatRequest(Common, kw_only=True):
    messages: list[Message]
    logprobs: bool = False
    top_logprobs: int = 0


def build_app(client: EngineClient) -> Starlette:
    """The routes of one server."""

    async def health(request: Request) -> Response:
        """200 only when every process of the server is ready."""
        body = {"status": client.status, "processes": client.processes, "names": client.names}
        return _json(body, 200 if client.status == "ready" else 503)

    async def models(request: Request) -> Response:
        return _json({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def completions(request: Request) -> Response:
        try:
            body = msgspec.json.decode(await request.body(), type=CompletionRequest)
        except msgspec.ValidationError as problem:
            return _error(400, str(problem))
        except msgspec.DecodeError as problem:
            return _error(400, f"not JSON: {problem}")
        return await _answer(client, body, _tokens(body.prompt), body.logprobs or 0, _completion)

    async def chat(request: Request) -> Response:
        try:
            body = msgspec.json.decode(await request.body(), type=ChatRequest)
        except msgspec.ValidationError as problem:
            return _error(400, str(problem))
        except msgspec.DecodeError as problem:
            return _error(400, f"not JSON: {problem}")
        prompt = "".join(f"<{message.role}>{message.content}\n" for message in body.messages)
        candidates = max(1, body.top_logprobs) if body.logprobs else 0
        return await _answer(client, body, encode(prompt), candidates, _chat)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


def _tokens(prompt: str | list[int]) -> Tokens:
    """No tokens where an id is none of the vocabulary's."""
    if isinstance(prompt, str):
        return encode(prompt)
    return from_json(prompt if all(0 <= one < VOCABULARY for one in prompt) else [])


async def _answer(
    client: EngineClient, body: Common, tokens: Tokens, candidates: int, shape: Shape
) -> Response:
    if client.status != "ready":
        return _error(503, f"the server is {client.status}")
    if not tokens or body.max_tokens < 1 or len(tokens) + body.max_tokens > CONTEXT:
        what = f"prompt (text, or ids below {VOCABULARY}) and max_tokens"
        return _error(400, f"{what} must be at least 1 and together at most {CONTEXT}")
    if not 0 <= candidates <= 20 or not 0 <= body.temperature <= 2 or body.seed < 0:
        return _error(400, "logprobs must be 0 to 20, temperature 0 to 2, seed 0 or more")
    stream = client.submit(tokens, body.max_tokens, Sampling(body.temperature, body.seed, candidates))
    ids = body.return_token_ids
    if body.stream:
        return StreamingResponse(_events(stream, shape, candidates > 0, ids), media_type="text/event-stream")
    try:
        chunks = [chunk async for chunk in stream]
    finally:
        stream.close()
    if not chunks or chunks[-1]["finish"] is None:
        return _error(503, "the engine ended")
    text = "".join(chunk["text"] or "" for chunk in chunks)
    samples = [one for chunk in chunks for one in chunk["samples"]]
    whole = shape(f"r{stream.number}", text, samples, candidates > 0, chunks[-1]["finish"])
    if ids:
        whole["prompt_token_ids"] = to_json(tokens)
        whole["choices"][0]["token_ids"] = [one for chunk in chunks for one in to_json(chunk["ids"])]
    whole["usage"] = {
        "prompt_tokens": len(tokens),
        "completion_tokens": len(samples),
        "total_tokens": len(tokens) + len(samples),
        "prompt_tokens_details": {"cached_tokens": chunks[-1]["cached"]},
    }
    return _json(whole)


async def _events(stream: Stream, shape: Shape, logprobs: bool, ids: bool) -> AsyncIterator[bytes]:
    try:
        finish = None
        async for chunk in stream:
            finish = chunk["finish"]
            yield event(f"r{stream.number}", chunk, shape, logprobs, ids)
        if finish is None:
            yield b'data: {"error":{"message":"the engine ended","code":503}}\n\n'
        else:
            yield b"data: [DONE]\n\n"
    finally:
        stream.close()  # also when the client has left


def event(name: str, chunk: Chunk, shape: Shape, logprobs: bool, ids: bool) -> bytes:
    """One server-sent event."""
    body = shape(name, chunk["text"] or "", chunk["samples"], logprobs, chunk["finish"])
    choice = body["choices"][0]
    if "message" in choice:
        body["object"] = "chat.completion.chunk"
        choice["delta"] = choice.pop("message")
    if ids:
        choice["token_ids"] = to_json(chunk["ids"])
    return b"data: " + _encode(body) + b"\n\n"


def _completion(name: str, text: str, sampled: list[Sampled], logprobs: bool, finish: str | None) -> Json:
    choice: Json = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    if logprobs:
        choice["logprobs"] = {
            "tokens": [decode(one.token) for one in sampled],
            "token_logprobs": [one.logprob for one in sampled],
            "top_logprobs": [
                {decode(candidate.token): candidate.logprob for candidate in one.candidates}
                for one in sampled
            ],
        }
    return {"id": name, "object": "text_completion", "created": int(time.time()), "model": MODEL,
            "choices": [choice]}  # fmt: skip


def _chat(name: str, text: str, sampled: list[Sampled], logprobs: bool, finish: str | None) -> Json:
    choice: Json = {"index": 0, "message": {"role": "assistant", "content": text},
                    "logprobs": None, "finish_reason": finish}  # fmt: skip
    if logprobs:
        choice["logprobs"] = {"content": [_chat_logprob(one) for one in sampled]}
    return {"id": name, "object": "chat.completion", "created": int(time.time()), "model": MODEL,
            "choices": [choice]}  # fmt: skip


def _chat_logprob(sampled: Sampled) -> Json:
    text = decode(sampled.token)
    return {
        "token": text,
        "logprob": sampled.logprob,
        "bytes": list(text.encode()),
        "top_logprobs": [
            {"token": decode(one.token), "logprob": one.logprob, "bytes": one.bytes}
            for one in sampled.candidates
        ],
    }


def _json(body: object, status: int = 200) -> Response:
    return Response(_encode(body), status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    return _json({"error": {"message": message, "code": status}}, status)
