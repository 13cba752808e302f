"""Fifteen tasks of everyday work, each with a check of what became of it in the world.

A task is a function of the agent and the folder it works in. It says what is wanted in plain words and gives the values
that a user would have named; which tool does it is for Wicket to say.
"""

import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.real.agent import Agent, handle_in

Task = Callable[[Agent, "World"], Awaitable[None]]
ZONES = ("Asia/Tokyo", "America/New_York", "Europe/Berlin", "Africa/Cairo", "Asia/Kolkata", "Australia/Sydney")
PAGE = "<html><body><h1>Opening hours</h1><p>The library opens at nine on weekdays.</p></body></html>"


class World:
    """A folder with a Git repository, a table of sales, some sources and a page on the web."""

    def __init__(self, folder: Path, page: str) -> None:
        self.folder, self.page = folder, page
        self.repository, self.sales, self.sources = folder / "shop", folder / "sales.csv", folder / "sources"
        self.repository.mkdir()
        self.sources.mkdir()
        rows = [f"2026-11-{day:02},{'tea' if day % 2 else 'coffee'},{day}" for day in range(1, 31)]
        self.sales.write_text("\n".join(["day,product,amount", *rows]) + "\n")
        (self.sources / "a.py").write_text("def a():\n    pass  # TODO: write a\n")
        (self.sources / "b.py").write_text("def b():\n    return 1\n")
        (self.sources / "c.py").write_text("# TODO: all of c\n" + "#\n" * 200)
        (folder / "events.log").write_text("".join(f"{n:05} something happened somewhere\n" for n in range(4000)))
        self.git("init", "-q", "-b", "main")
        self.write("prices.txt", "tea 3\n")
        for author, words in (("Ada", "Add prices"), ("Grace", "Raise prices")):
            self.write("prices.txt", f"tea {len(words)}\n")
            self.git("add", ".")
            self.git("commit", "-q", "-m", words, f"--author={author} <{author.lower()}@example.com>")
        self.write("prices.txt", "tea 5\n")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=self.repository, check=True, capture_output=True, text=True).stdout

    def write(self, name: str, text: str) -> None:
        (self.repository / name).write_text(text)

    @property
    def memory(self) -> str:
        file = self.folder / "memory.jsonl"
        return file.read_text() if file.exists() else ""


async def time_in_two_cities(agent: Agent, world: World) -> None:
    tool = await agent.find("current time in a time zone", timezone=ZONES[0])
    said = await agent.run(f"[(await {tool.identifier}(timezone=zone))['timezone'] for zone in {list(ZONES[:2])}]")
    assert all(zone in said for zone in ZONES[:2])


async def commits_and_uncommitted_files(agent: Agent, world: World) -> None:
    repository = str(world.repository)
    said = await agent.use("show the latest commits of the repository", repo_path=repository, max_count=2)
    assert "Raise prices" in said
    assert "prices.txt" in await agent.use("which files have uncommitted changes", repo_path=repository)


async def sales_by_product(agent: Agent, world: World) -> None:
    tool = await agent.find("read a text file", path=str(world.sales))
    where = f"path={str(world.sales)!r}"
    said = await agent.run(
        "import csv, io\n"
        f"text = {tool.text(where)}\n"
        "sums = {}\n"
        "for row in csv.DictReader(io.StringIO(text)):\n"
        "    sums[row['product']] = sums.get(row['product'], 0) + int(row['amount'])\n"
        "sums"
    )
    assert json.loads(said) == {"tea": 225, "coffee": 240}


async def table_into_a_database(agent: Agent, world: World) -> None:
    create = f"CREATE TABLE sales AS SELECT * FROM read_csv('{world.sales}')"  # noqa: S608  (the agent's own)
    tool = await agent.find("run SQL statements in the database", sql=create)
    await agent.call(tool, sql=create)
    assert "465" in await agent.call(tool, sql="SELECT sum(amount) AS total FROM sales")


async def lines_with_todo(agent: Agent, world: World) -> None:
    folder = str(world.sources)
    search = await agent.find("find files whose name matches a pattern", path=folder, pattern="**/*.py")
    read = await agent.find("read a text file", path=folder)
    where = f"path={folder!r}, pattern='**/*.py'"
    said = await agent.run(
        f"names = {search.text(where)}.splitlines()\n"
        "found = []\n"
        "for name in names:\n"
        f"    for line in {read.text('path=name')}.splitlines():\n"
        "        if 'TODO' in line:\n"
        "            found.append(line.strip())\n"
        "found"
    )
    assert sorted(json.loads(said)) == ["# TODO: all of c", "pass  # TODO: write a"]


async def remember_somebody(agent: Agent, world: World) -> None:
    ada = {"name": "Ada", "entityType": "person", "observations": ["prefers tea"]}
    await agent.use("remember facts about a person", entities=[ada])
    assert "prefers tea" in await agent.use("search the knowledge graph for somebody", query="Ada")
    assert "prefers tea" in world.memory


async def branch_write_and_commit(agent: Agent, world: World) -> None:
    repository = str(world.repository)
    await agent.use("create a new branch", repo_path=repository, branch_name="coffee")
    await agent.use("switch to another branch", repo_path=repository, branch_name="coffee")
    await agent.use("write text into a file", path=f"{repository}/coffee.txt", content="coffee 4\n")
    await agent.use("stage files for commit", repo_path=repository, files=["coffee.txt"])
    await agent.use("commit what is staged", repo_path=repository, message="Add coffee")
    assert world.git("log", "--format=%s", "-1", "coffee").strip() == "Add coffee"
    assert "coffee.txt" in world.git("show", "--stat", "coffee")


async def top_three(agent: Agent, world: World) -> None:
    query = f"SELECT day FROM read_csv('{world.sales}') ORDER BY amount DESC LIMIT 3"  # noqa: S608
    said = await agent.use("run SQL statements in the database", sql=query)
    assert all(f"2026-11-{day}" in said for day in (30, 29, 28))


async def large_result_into_a_file(agent: Agent, world: World) -> None:
    source, copy = world.folder / "events.log", world.folder / "copy.log"
    said = await agent.use("read a text file", path=str(source))
    await agent.use("write text into a file", path=str(copy), content={"$result": handle_in(said)})
    assert copy.read_text() == source.read_text()


async def largest_file(agent: Agent, world: World) -> None:
    said = await agent.use("list a folder with the sizes of its files", path=str(world.sources), sortBy="size")
    assert next(line for line in said.splitlines() if "[FILE]" in line).split()[1] == "c.py"


async def convert_a_time(agent: Agent, world: World) -> None:
    said = await agent.use(
        "convert a time from one time zone to another",
        source_timezone="Asia/Tokyo",
        time="09:30",
        target_timezone="Asia/Kolkata",
    )
    assert "06:00" in said


async def read_a_page(agent: Agent, world: World) -> None:
    assert "opens at nine" in await agent.use("fetch a web page", url=world.page)


async def look_at_changes_and_stage_them(agent: Agent, world: World) -> None:
    repository = str(world.repository)
    assert "+tea 5" in await agent.use("show the changes that are not staged yet", repo_path=repository)
    await agent.use("stage files for commit", repo_path=repository, files=["prices.txt"])
    assert "prices.txt" in world.git("diff", "--cached", "--name-only")


async def six_time_zones(agent: Agent, world: World) -> None:
    tool = await agent.find("current time in a time zone", timezone=ZONES[0])
    said = await agent.run(
        "import asyncio\n"
        f"zones = {list(ZONES)}\n"
        f"times = await asyncio.gather(*[{tool.identifier}(timezone=zone) for zone in zones])\n"
        "{time['timezone']: time['datetime'][11:16] for time in times}"
    )
    assert set(json.loads(said)) == set(ZONES)


async def authors_into_memory(agent: Agent, world: World) -> None:
    repository = str(world.repository)
    log = await agent.find("show the latest commits of the repository", repo_path=repository, max_count=10)
    remember = await agent.find("remember facts about a person", entities=[])
    of = f"repo_path={repository!r}, max_count=10"
    await agent.run(
        "import re\n"
        f"log = {log.text(of)}\n"
        "names = sorted(set(re.findall(r'Author: \\W*(\\w+)', log)))\n"
        "facts = [{'name': name, 'entityType': 'author', 'observations': ['wrote code']} for name in names]\n"
        f"await {remember.identifier}(entities=facts)"
    )
    assert '"name":"Grace"' in world.memory.replace('": "', '":"')


TASKS: dict[str, Task] = {
    "time in two cities": time_in_two_cities,
    "latest commits, uncommitted files": commits_and_uncommitted_files,
    "sum a CSV by product": sales_by_product,
    "CSV into a database": table_into_a_database,
    "lines with TODO": lines_with_todo,
    "remember and look up": remember_somebody,
    "branch, write, stage, commit": branch_write_and_commit,
    "top three by SQL": top_three,
    "a large result into a file": large_result_into_a_file,
    "largest file": largest_file,
    "convert a time": convert_a_time,
    "read a web page": read_a_page,
    "look at changes and stage them": look_at_changes_and_stage_them,
    "time in six zones at once": six_time_zones,
    "authors of commits into memory": authors_into_memory,
}
