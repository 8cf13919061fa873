"""A server for the load client: prints its port, then answers by path. Ends when its input does."""

import asyncio
import json
import sys

open_connections = []


async def serve(reader, writer):
    open_connections.append(writer)
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            path = first.split(" ")[1]
            length = sum(
                int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length")
            )
            body = await reader.readexactly(length)
            if path == "/ok":
                write(writer, b"fine")
            elif path == "/error":
                write(writer, b"no", "500 Internal Server Error")
            elif path == "/never":
                await asyncio.sleep(3600)
            elif path == "/drop":
                writer.close()
                return
            elif path.startswith(("/v1/", "/broken/v1/")):
                asked = json.loads(body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
                writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
                chat = "messages" in asked
                # The first event of a chat carries a role and no text.
                words = ["", "one", "two", "three"]
                for word in words:
                    choice = {"delta": {"role": "assistant", "content": word}} if chat else {"text": word}
                    event(writer, json.dumps({"choices": [choice]}))
                    await writer.drain()
                if path.startswith("/broken"):
                    writer.close()
                    return
                if asked.get("end"):
                    event(writer, json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
                    await writer.drain()
                if asked.get("usage"):
                    event(writer, json.dumps({"choices": [], "usage": {"completion_tokens": 7}}))
                event(writer, "[DONE]")
                writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def event(writer, text):
    data = f"data: {text}\n\n".encode()
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def write(writer, body, status="200 OK"):
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()
    import os

    os._exit(0)


asyncio.run(main())
