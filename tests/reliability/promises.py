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
    "F36": "the daemon that clients share is stopped",
    "F37": "one process decides what another one serves",
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
    "F27": "256 KiB and more in pieces of 64 KiB; longest piece of a 6 MiB message: 15 ms; with two million records:"
    " 22 ms (`bench/audit.py`). One result of up to 15 MiB or 100,000 blocks, arguments of up to 3.9 MiB, a "
    "hostile schema, a server that lists 100,000 tools, the first search, a script or a start of a server: 26 ms"
    " at most, worst of three 28 ms, on a quiet machine (`bench/held.py`)",
    "F28": "half of the descriptors, 8,192 at most; half of those for one address",
    "F29": "95 % of the memory: 4 requests at once",
    "F30": "2 for each processor and 4 more at a time; 200 servers listed in 2.6 s",
    "F31": "a head within 10 s, a body within 30 s",
    "F33": "48 minutes on a busy machine, 63,000 operations: no more tasks, descriptors or threads; 235 to 240 MiB "
    "(`bench/soak.py`)",
    "F34": "16 start in a turn of the loop, 64 run until one has ended; a burst waits at most 2 s; once requests have "
    "waited for over 30 ms for a second, 4 ms at most. Goodput, compared with the best load, on a busy machine that "
    "preferred the measured processes: 92 % with 1,000 clients, 96 % with 3,000; per second of the gateway's processor "
    "time 93 and 97 %; no call failed (`bench/load.py`)",
    "F36": "10 s",
    "T23": "2,000 characters, 50 names, 16 references, 200,000 values",
    "T24": "10,000 steps",
    "V2": "16 references, 4 MiB",
    "V3": "1 MiB for each client",
    "V6": "64 KiB, 100 headers, an address of 16 KiB",
    "V12": "4,000 characters of a description, 40 of a word",
    "V13": "300 processes; a separate user",
    "V18": "60 s",
    "V21": "128 levels",
    "V26": "2,000 messages a second, and as many at once; cut off after 60 s. 64 clients, four bad servers among "
    "twenty, 60 s in turns, on a busy machine that preferred the measured processes: the p50 of the others is"
    " 1.07 times as long, their p99 1.09 times (22 to 25 ms; FastMCP's proxy in the same run: 388 to 441 ms, "
    "1.15 times); a call takes 0.17 ms of processor time without and 0.18 ms with them (FastMCP: 5.2 and 6.1 "
    "ms); none of 656,000 calls failed or was refused (`bench/load.py`)",
}
"""The bound that is kept, or what was measured, where there is a figure to give."""


BEFORE = {
    "V1": "it was started without a question",
    "V2": "40 references: 3.2 GB, 33 s",
    "V3": "350 MB more in each second",
    "V4": "4,000 numbers: nobody was answered for 14.5 s",
    "V5": "one script: nobody was answered for 27 s",
    "V6": "one connection: 1.7 GB",
    "V7": "the first 228 characters of a long secret, and a key of several lines, were shown",
    "V8": "the message and the question reached the second principal",
    "V9": "a server's text began a line of the log",
    "V10": "a server's title stood in the instructions",
    "V11": "1,005 sessions ended everybody else's",
    "V12": "30 texts of 1 MB: 30 MB were kept",
    "V13": "600 of 600 processes were started, by root",
    "V14": "the address was shown to the other principal",
    "V15": "the second principal published beside the first",
    "V16": "500 and a traceback",
    "V17": "`javascript:alert(1)` was passed to the client, without the server's name",
    "V18": "still connected after 40 s",
    "V19": "the server went on",
    "V20": "the copy was written through the link",
    "V21": "a traceback of 100 KB; a call that waited 60 s",
    "V22": "no record",
    "V23": "two different answers",
    "V24": "the script read 666 instead of 3",
    "V25": "`crash` instead of a NameError",
    "V26": "still flooding, and not named in the status, after 75 s; the p50 of the others grew from 1.5 to 20 ms",
    "V27": "270,000 values were accepted, and parsed on the event loop",
    "V28": "200 for a page's text/plain",
    "D1": "6 of 15 first starts of two ruined the file",
    "D2": "a query of 3.9 MB: 62 s in which nobody was answered",
    "D3": "100 references: 9.9 GB, 75 s",
    "D4": "46 to 884 MiB in 6 s",
    "D5": "searches failed after 19.9 s; no handshake in 30 s; no end on SIGTERM in 120 s",
    "D6": "8.0 GB, 45 s",
    "D7": "frozen for ever after 64 KiB of log",
    "D8": "calls hung until their timeout",
    "D9": "one client's 1,000 sessions ended everybody else's",
    "D10": "the call waited 60 s",
    "D11": "120.7 s",
    "D12": "never restarted",
    "D13": "servers that ignore the end of their input, and what servers had started, went on",
    "D14": "23,380 tracebacks in 8 s",
    "D15": "1,000 of 1,000 requests of a server were started; a flood was not slowed",
    "D16": "15,000 of 15,000 records were read; a million: 3.8 s",
    "D17": "the next call failed: the session was not known any more",
    "D18": "10 of 10 other calls failed",
    "D19": "a limit never refilled; the gateway ended; a 500 as text; no answer; nothing was noticed",
}
"""What happened with the code that was reviewed (commit 0599d87), where its test fails."""


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
