"""The few JSON-RPC messages that the shim reads and writes itself; all others are passed on as bytes.

Used by `relay.py`. Loads nothing at start; `json` is loaded for the first message that is parsed.
"""

TYPE_CHECKING = False  # as in `relay.py`
if TYPE_CHECKING:
    Key = tuple[str, str | int | float | None]

ANSWER = b'{"jsonrpc":"2.0","id":'
MODERN = "io.modelcontextprotocol/protocolVersion"
LOST = (
    "Wicket's daemon ended before this call was answered: it may have had effects. "
    "A new one is started; check before you try again."
)
SILENT = (
    "Wicket's daemon does not answer any more: this call may have had effects. "
    "You have a gateway of your own now; check before you try again."
)


def answer_for_lost(request: "dict[str, object]", method: str, words: str) -> "dict[str, object]":
    """The answer to a request whose gateway died; like the answer for `errors.Crashed`."""
    detail: dict[str, object] = {"code": "crashed", "retryable": False}
    if method != "tools/call":
        error: dict[str, object] = {"code": -32603, "message": words, "data": detail}
        return {"jsonrpc": "2.0", "id": request.get("id"), "error": error}
    meta = as_object(as_object(request.get("params")).get("_meta"))
    era: dict[str, object] = {"resultType": "complete"} if MODERN in meta else {}
    content = [{"type": "text", "text": words}]
    result: dict[str, object] = {**era, "content": content, "isError": True, "_meta": {"wicket/error": detail}}
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": result}


def split(lines: bytes) -> list[bytes]:
    return [line + b"\n" for line in lines[:-1].split(b"\n")]


def key_of(number: object) -> "Key":
    """An id as a key: 1 and "1" are different, and so are 1 and true."""
    return type(number).__name__, number if isinstance(number, str | int | float) else None


def as_object(value: object) -> "dict[str, object]":
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def read_id(line: bytes) -> tuple[object, int]:
    """The id of a message that begins like ours, and the position after it."""
    from json import JSONDecoder  # loaded for the first answer

    at = len(ANSWER)
    text = line[at : at + 300].decode("utf-8", "replace")
    try:
        number, end = JSONDecoder().raw_decode(text)
    except ValueError:
        text = line[at:].decode("utf-8", "replace")
        number, end = JSONDecoder().raw_decode(text)
    return number, at + len(text[:end].encode()) + 1


def read_object(line: bytes) -> "dict[str, object]":
    """A line as an object; an empty one if it is none, which the gateway will report."""
    import json

    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return as_object(message)


def write_object(message: "dict[str, object]") -> bytes:
    import json

    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
