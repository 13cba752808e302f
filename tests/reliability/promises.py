"""What may go wrong, by id, and what proves that it does not: F faults, T threats, V weaknesses that a review of this
code found, D defects that a run of faults against it found.

A test says what it proves with `@pytest.mark.promise("F7", "One sentence.")`, and has the id in its name. `MISSING`
names what no test proves yet, and why. `document.py` makes `docs/reliability.md` of both; `test_promises.py` sees that
no id is left out.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]

SUBJECTS = {
    "F1": "a server is killed during a call",
    "F2": "a server never answers the handshake",
    "F3": "a server exits as soon as it is started",
    "F4": "a server writes something that is not a message",
    "F5": "a server writes an endless line",
    "F6": "a server floods stderr",
    "F7": "a server stops reading its input, or hangs",
    "F8": "a connection that never answers",
    "F9": "a server reports progress and never answers",
    "F10": "a server says that it is busy",
    "F11": "a connection breaks after the request was sent",
    "F12": "an answer without limit: compressed, endless, or very slow",
    "F13": "a client leaves during its call",
    "F14": "many cancellations",
    "F15": "very many changes of lists",
    "F16": "a list without limit",
    "F17": "the disk is full",
    "F18": "another program holds the state locked",
    "F19": "the state is damaged, of another version, or read-only",
    "F20": "Redis is away",
    "F21": "Postgres fails over",
    "F22": "the clock jumps",
    "F23": "SIGTERM during calls",
    "F24": "a restart under load",
    "F25": "the gateway itself is killed",
    "F26": "the configuration changes, or changes to a broken one",
    "F27": "something blocks the event loop",
    "F28": "no descriptors are left",
    "F29": "memory is short",
    "F30": "many servers, some of them dead",
    "F31": "clients that send or read slowly",
    "F32": "both eras of the protocol",
    "F33": "slow growth",
    "F34": "more load than one machine can serve",
    "T1": "a web page calls the local gateway",
    "T2": "a remote user changes what is executed",
    "T3": "a route without its guard",
    "T4": "headers that contradict the body",
    "T5": "an answer reaches another client",
    "T6": "a handle or a session is stolen",
    "T7": "a client's token is passed on",
    "T8": "a client uses rights that are the gateway's",
    "T9": "a malicious sign-in page",
    "T10": "an address that leads inside the network",
    "T11": "instructions in the text of a tool",
    "T12": "a tool changes after it was approved",
    "T13": "a name that looks like another",
    "T14": "a description filled with keywords",
    "T15": "instructions in results and questions",
    "T16": "text that attacks a terminal or a page",
    "T17": "a secret in logs, errors, arguments or state",
    "T18": "no or default credentials",
    "T19": "a package that was changed",
    "T20": "hidden tools can be guessed",
    "T21": "a cache shared between principals",
    "T22": "a server that uses up memory and time",
    "T23": "a client that uses up memory and time",
    "T24": "a schema that takes very long to check",
    "T25": "a script that breaks out",
    "T26": "a tool that is called to see what it does",
    "T27": "a query language inside a query",
    "T28": "names that become paths",
    "T29": "forged or missing records",
    "T30": "a call that is made twice",
    "V1": "a file of the current folder decides what is started",
    "V2": "references to stored results that add up",
    "V3": "a client that does not read while a server talks",
    "V4": "a schema that makes checking quadratic",
    "V5": "small requests that take long",
    "V6": "the head of a request is without limit",
    "V7": "secrets in errors and process lists",
    "V8": "messages and questions of a server reach another principal",
    "V9": "text of a server forges lines of the log",
    "V10": "a server's text is part of Wicket's instructions",
    "V11": "one principal uses up what all share",
    "V12": "texts that are kept without limit",
    "V13": "a script starts processes without end",
    "V14": "addresses that others gave are shown",
    "V15": "a name of the registry beside somebody else's",
    "V16": "a malformed Host or Origin",
    "V17": "a question that leads to a page of another kind",
    "V18": "a client that never reads its answer",
    "V19": "a server that outlives a killed gateway",
    "V20": "taking a client over through a link",
    "V21": "arguments and answers of great depth",
    "V22": "requests that leave no record",
    "V23": "denied and absent tools can be told apart",
    "V24": "a script that forges its own answers",
    "V25": "a script that ends its driver",
    "V26": "one server's flood of notifications slows the others",
    "V27": "a taken-over script that sends large messages",
    "V28": "a page of this machine calls a gateway without a token",
    "D1": "two first starts at once ruin the state file",
    "D2": "a long query stops everybody",
    "D3": "references to one stored result take gigabytes",
    "D4": "a client that does not read takes memory without limit",
    "D5": "trouble with the state stops searches, handshakes, results and keys",
    "D6": "lists without a limit in bytes",
    "D7": "a log that nobody reads stops the gateway",
    "D8": "a dead server behind a detached process is not noticed",
    "D9": "one client's sessions end those of others",
    "D10": "an answer that cannot be read costs a minute",
    "D11": "the first search waits for the slowest server",
    "D12": "a server that hangs is never restarted",
    "D13": "servers that outlive a killed gateway",
    "D14": "no free descriptor keeps a core busy and fills the log",
    "D15": "one server's messages and questions slow the others",
    "D16": "a large audit is read whole",
    "D17": "a lost session at a server fails the calls in flight",
    "D18": "one answer that is too large fails all calls on its connection",
    "D19": "small ones: a clock that jumps, large messages over stdio, the end of a drain, half-closed connections",
}

MISSING: dict[str, str] = {}


FIGURES = {
    "F1": "noticed within 0.5 s",
    "F2": "3 s",
    "F3": "pauses up to 30 s",
    "F4": "10,000 lines a minute; 9 parsers fuzzed for 4 s each",
    "F5": "16 MiB",
    "F7": "3 calls, then a ping",
    "F9": "5 minutes by default",
    "F12": "16 MiB, decompressed",
    "F15": "2 messages a second; a listing every 2.5 s",
    "F16": "5,000 entries, 32 MiB a list, 512 KiB a definition",
    "F18": "readers do not wait for a writer",
    "F23": "50 of 50 answered",
    "F25": "100 kills, nothing lost",
    "F27": "256 KiB and more in pieces of 64 KiB; longest piece of a 6 MiB message: 15 ms; with two million records: "
    "22 ms (`bench/audit.py`)",
    "F28": "half of the descriptors, 8,192 at most; half of those for one address",
    "F29": "95 % of the memory: 4 requests at once",
    "F30": "8 at a time; 200 servers listed in 2.6 s",
    "F31": "a head within 10 s, a body within 30 s",
    "F33": "48 minutes on a busy machine, 63,000 operations: no more tasks, descriptors or threads; 235 to 240 MiB "
    "(`bench/soak.py`)",
    "F34": "16 start in a turn of the loop, 64 run until one has ended; a burst waits at most 2 s, and 30 ms once the "
    "waiting has lasted for a second. Goodput, compared with the best load, on a busy machine that preferred the "
    "measured processes: 86 % with 1,000 clients, 89 % with 3,000; per second of the gateway's processor time 84 and "
    "88 %; no call failed (`bench/load.py`)",
    "T23": "2,000 characters, 50 names, 16 references, 200,000 values",
    "T24": "10,000 steps",
    "V2": "16 references, 4 MiB",
    "V3": "1 MiB for each client",
    "V6": "64 KiB, 100 headers, an address of 16 KiB",
    "V12": "4,000 characters of a description, 40 of a word",
    "V13": "300 processes; a separate user",
    "V18": "60 s",
    "V21": "128 levels",
    "V26": "2,000 messages a second, 10,000 at once; cut off after 60 s. With four bad servers, 60 s, busy machine, "
    "the p50 of the others is 1.21 times as long, their p99 1.28 times (78 to 95 ms; FastMCP's proxy in the same run: "
    "1,039 to 1,078 ms, 1.07 times); a call takes 0.21 ms of processor time instead of 0.18 (FastMCP: 7.8 and 6.5 ms); "
    "no call failed or was refused (`bench/load.py`)",
}
"""The bound that is kept, or what was measured, where there is a figure to give."""


class Promise(NamedTuple):
    """One marked test."""

    id: str
    sentence: str
    test: str
    """As pytest takes it: `tests/gateway/test_faults.py::test_name`."""


def collect() -> list[Promise]:
    """Every marked test, in the order of the ids; read from the sources, so that nothing has to be imported."""
    promises = [promise for path in sorted(TESTS.rglob("*.py")) if path.parent.name != "data" for promise in _of(path)]
    return sorted(promises, key=lambda promise: (order(promise.id), promise.test))


def order(promise_id: str) -> tuple[str, int]:
    """D, F, T, V, each by number."""
    return promise_id[:1], int(promise_id[1:]) if promise_id[1:].isdecimal() else 0


def _of(path: Path) -> Iterator[Promise]:
    text = path.read_text("utf-8")
    if "mark.promise(" not in text:
        return
    name = path.relative_to(TESTS.parent).as_posix()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.promise":
                    promise_id, sentence = (ast.literal_eval(argument) for argument in decorator.args)
                    yield Promise(promise_id, sentence, f"{name}::{node.name}")
