"""What a Lua script can do, and what its author is told when it fails."""

from scripts_world import API, World, run

from wicket_mcp.scripts import Scripts


async def test_a_call_gives_the_tools_data(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "result(calculator.add({a = 5, b = 3}):await())")
    assert (outcome.state, outcome.value) == ("done", {"sum": 8})
    assert [str(call) for call in outcome.calls] == ["calculator.add: ok"]


async def test_calls_that_are_started_together_are_in_flight_together(scripts: Scripts) -> None:
    world = World(together=2)
    source = """
        local first, second = calculator.add({a = 1, b = 2}), calculator.add({a = 3, b = 4})
        return {first:await().sum, second:await().sum}
    """
    outcome = await run(scripts, "lua", source, world)
    assert outcome.value == [3, 7]
    assert world.most_in_flight == 2


async def test_promises_chain(scripts: Scripts) -> None:
    source = """
        calculator.add({a = 1, b = 2})
          :next(function(r) return calculator.add({a = r.sum, b = 10}) end)
          :next(function(r) error("no " .. r.sum) end)
          :catch(function(problem) print(problem) return "mended" end)
          :finally(function() print("at last") end)
          :next(result)
    """
    outcome = await run(scripts, "lua", source)
    assert outcome.value == "mended"
    assert outcome.printed == "script:4: no 13\nat last\n"


async def test_await_all_and_settle_all_keep_keys_and_failures(scripts: Scripts) -> None:
    source = """
        local all = await_all({one = calculator.add({a = 1, b = 0}), two = 2})
        local settled = settle_all({calculator.add({a = 1, b = 1}), calculator.fail({})})
        return {all = all, settled = settled}
    """
    outcome = await run(scripts, "lua", source)
    assert outcome.value == {
        "all": {"one": {"sum": 1}, "two": 2},
        "settled": [
            {"ok": True, "value": {"sum": 2}},
            {"ok": False, "error": "calculator.fail: the calculator is out of order"},
        ],
    }


async def test_await_works_inside_coroutines_and_pcall(scripts: Scripts) -> None:
    source = """
        local each = coroutine.wrap(function()
          for i = 1, 2 do coroutine.yield(calculator.add({a = i, b = i}):await().sum) end
        end)
        local ok, problem = pcall(function() return calculator.fail({}):await() end)
        return {each(), each(), ok, problem}
    """
    outcome = await run(scripts, "lua", source)
    assert outcome.value == [2, 4, False, "script:5: calculator.fail: the calculator is out of order"]


async def test_the_last_result_wins_and_a_promise_is_awaited(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "result(1) result(calculator.add({a = 1, b = 1}))")
    assert outcome.value == {"sum": 2}


async def test_a_script_without_a_result_has_none(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "calculator.add({a = 1, b = 1})")
    assert (outcome.state, outcome.has_value) == ("done", False)
    assert [call.state for call in outcome.calls] == ["ok"], "a call nobody awaits is made all the same"


async def test_values_keep_their_shape(scripts: Scripts) -> None:
    world = World()
    source = """
        mirror.echo({v = {none = null, list = array{}, object = {}, holes = {1, nil, 3}, whole = 5.0,
          big = 9007199254740993, bad = "a\\255b", nan = 0/0}})
    """
    await run(scripts, "lua", source, world)
    sent = world.asked[0][2]["v"]
    assert sent == {
        "none": None,
        "list": [],
        "object": {},
        "holes": [1, None, 3],
        "whole": 5,
        "big": 9007199254740993,
        "bad": "a\ufffdb",
        "nan": None,
    }
    assert isinstance(sent["whole"], int)


async def test_an_empty_table_becomes_what_the_schema_asks_for(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "return mirror.to_list({v = {}}):await()")
    assert outcome.value == "a list"


async def test_a_tool_is_found_called_and_read_in_one_script(scripts: Scripts) -> None:
    source = """
        local hit = tools.search("add numbers", {limit = 1}):await()[1]
        local schema = tools.describe(hit.name):await()[hit.name].schema
        local sum = tools.call(hit.name, {a = #schema.required, b = args.extra}):await().sum
        return {sum, results.get("r1"):await().rows}
    """
    outcome = await run(scripts, "lua", source, arguments={"extra": 40})
    assert outcome.value == [42, [1, 2, 3]]


async def test_printing_is_captured_and_cut(scripts: Scripts) -> None:
    source = "print('a', 1, null) for i = 1, 5000 do print('0123456789') end"
    outcome = await run(scripts, "lua", source)
    assert outcome.printed.startswith("a\t1\tnull\n0123456789\n")
    assert outcome.printed.endswith("cut: more was printed than is kept\n")
    assert len(outcome.printed) < scripts.limits.printed + 100


async def test_servers_are_tables_of_functions(scripts: Scripts) -> None:
    source = """
        local names = {}
        for name, tool in pairs(calculator) do names[#names + 1] = name .. type(tool) end
        table.sort(names)
        return names
    """
    outcome = await run(scripts, "lua", source)
    assert outcome.value == ["addfunction", "blobfunction", "failfunction"]


async def test_a_server_that_the_source_does_not_spell_out_is_reached_all_the_same(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "return _G['calcu' .. 'lator'].add({a = 1, b = 1}):await()")
    assert outcome.value == {"sum": 2}
    outcome = await run(scripts, "lua", "return _G['calcu' .. 'lator'].ad({a = 1, b = 1}):await()")
    assert outcome.problem is not None
    assert "Did you mean 'add'?" in outcome.problem.message


async def test_names_that_are_no_identifiers_are_reachable(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "return data_server.slow_lookup():await()")
    assert outcome.value == "looked up"
    assert "data_server" in API.servers


async def test_every_failure_names_its_line_and_its_remedy(scripts: Scripts) -> None:
    failures = {
        "local r = calculator.add({a = 1, b = 2})\nprint(r.sum)": (2, "before reading 'sum'", "awaited"),
        "\ncalculatr.add({})": (2, "calculatr", "calculator"),
        "calculator.ad({})": (1, "no tool 'ad'", "calculator.add"),
        "local result = 1\nresult(2)": (2, "attempt to call", "hides the function"),
        "x = = 1": (1, "unexpected symbol", ""),
        "calculator.add({a = 'x'}):await()": (1, "'a' must be an integer", "tools.describe"),
        "local a = 1\nerror({code = 7})": (2, '{"code":7}', ""),
        "return {f = print}": (None, "the result.f is a function", ""),
        "calculator.add(5)": (1, "one table of named arguments", ""),
        "table.sort({2, 1}, function() calculator.add({a = 1, b = 1}):await() end)": (1, "table.sort", ""),
    }
    for source, (line, message, hint) in failures.items():
        outcome = await run(scripts, "lua", source)
        assert outcome.problem is not None, source
        assert outcome.problem.line == line, source
        assert message in outcome.problem.message, source
        assert hint in outcome.problem.hint, source


async def test_a_failure_tells_what_was_printed_and_which_calls_remain(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "print('so far') calculator.add({a = 1, b = 1}):await() error('stop')")
    text = outcome.explain()
    assert text.startswith("stop\nline 1: print('so far')")
    assert "so far" in text.split("Printed:")[1]
    assert "calculator.add: ok" in text
