"""`wicket tokens`: the ledger of the user's own servers."""

from tests.cli.shell import Shell
from tests.conftest import replay
from wicket_mcp.codec import encode


def test_the_ledger_adds_up_and_wickets_menu_is_small(shell: Shell) -> None:
    servers = {"github": replay("github"), "git": replay("git")}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    found = shell.run("tokens", "--json").json
    assert found["exact"] is True
    assert found["flat"] == sum(found["servers"].values())
    assert list(found["servers"]) == ["github", "git"]
    assert found["flow"] == found["menu"] + found["instructions"] + found["search"] + found["call"]
    assert found["menu"] < 600
    assert found["instructions"] < 3300, "signatures of a small catalogue are inlined where they fit 3,000 tokens"
    assert found["flow"] < found["flat"] / 2
    heaviest = [one["tokens"] for one in found["heaviest"]]
    assert len(heaviest) == 10
    assert heaviest == sorted(heaviest, reverse=True)


def test_the_table_has_bars_that_follow_the_numbers(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"github": replay("github"), "git": replay("git")}}))
    lines = shell.run("tokens", "--top", "2").out.splitlines()
    at = lines.index("By server")
    github, git = lines[at + 1], lines[at + 2]
    assert github.split()[0] == "github"
    assert github.count("█") > git.count("█") > 0
    assert len(lines[lines.index("Heaviest tools") + 1 :]) == 2
    assert any("% less" in line for line in lines)


def test_without_a_tokenizer_it_estimates_and_says_so(shell: Shell) -> None:
    shell.write("nothing/rs_bpe.py", "raise ImportError('not installed')")
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"git": replay("git")}}))
    done = shell.run("tokens", PYTHONPATH=str(shell.home / "nothing"))
    assert "≈" in done.out
    assert "pip install 'wicket-mcp[tokens]'" in done.err
    assert shell.run("tokens", "--json", PYTHONPATH=str(shell.home / "nothing")).json["exact"] is False
