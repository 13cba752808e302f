"""A few seconds of coverage-guided fuzzing of every parser: no exception that is not ours, no hang, no growth."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 4
BOUNDS = (f"-max_total_time={SECONDS}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=400", "-verbosity=0")
SEEDS = {
    "framing": b'{"id":1}\n{"id":2}\n',
    "events": b": hi\r\nid: 1\nevent: message\ndata: {}\n\nretry: 5\n",
    "messages": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":[]}}}',
    "json_text": b'{"a":[1,-2.5e+10,"\\ud83d\\ude00\\n",null,true,{"b":[[],[]]}],"c":"\xc3\xa4"}',
    "schemas": b'{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"anyOf":[]}}}\x00{"a":[1]}',
    "references": b'{"a":[{"$result":"r1","path":"items[0].name"}]}',
    "paths": b'rows[*].name\x00{"rows":[{"name":1}]}',
    "configuration": b'[servers.x]\ncommand = "x"\nenv = { A = "${B}" }\n',
    "arguments": b'{"query":"x","names":["a"],"limit":5}',
}


@pytest.mark.promise("F4", "Coverage-guided fuzzing of every parser finds no unexpected exception and no hang.")
@pytest.mark.parametrize("target", SEEDS)
def test_f4_nothing_is_found_in_a_few_seconds(target: str, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "seed").write_bytes(SEEDS[target])
    command = [sys.executable, "-m", "tests.fuzz.targets", target, *BOUNDS]
    command += [f"-artifact_prefix={tmp_path}/", str(tmp_path / "corpus")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list((tmp_path / "corpus").iterdir())) > 1, "it learnt nothing: nothing is instrumented"
