-- The part of a Lua jail that runs inside it: the script's globals, its calls, and the step function. The host calls
-- `step` and receives strings; no value of the host is reachable from here. Nothing here protects the host: the
-- sandboxed process does.

local json_part, tasks_part, config_text = ...

local type, next, select, tostring, tonumber, error, pcall, assert, load =
  type, next, select, tostring, tonumber, error, pcall, assert, load
local rawget, rawset, rawlen, rawequal, setmetatable, getmetatable, pairs, ipairs =
  rawget, rawset, rawlen, rawequal, setmetatable, getmetatable, pairs, ipairs
local find, rep, sub = string.find, string.rep, string.sub
local concat, unpack, pack = table.concat, table.unpack, table.pack
local co_yield, co_isyieldable, co_resume = coroutine.yield, coroutine.isyieldable, coroutine.resume
local clock, collect = os.clock, collectgarbage

local tasks
local json = json_part(function(t)
  local promise = tasks and tasks.promise_of(t)
  return promise and promise.label
end)
local ARRAY, null, quote, encode = json.ARRAY, json.null, json.quote, json.encode
local config = json.decode(config_text)
tasks = tasks_part(config.cpu)
local PARK, main, methods = tasks.PARK, tasks.main, tasks.methods
local spawn, off_the_clock, promise_of, reraise = tasks.spawn, tasks.off_the_clock, tasks.promise_of, tasks.reraise
math.randomseed(config.seed) -- forks of one runtime would all draw the same numbers

-- Printing ----------------------------------------------------------------------------------------------

local printed, printed_size = {}, 0

local function emit(text)
  local left = config.printed - printed_size
  if left < 0 then return end
  printed_size = printed_size + #text
  if #text > left then text = sub(text, 1, left) .. "\n… cut: more was printed than is kept\n" end
  printed[#printed + 1] = text
end

local function take_printed()
  if #printed == 0 then return "" end
  local text = quote(concat(printed))
  printed = {}
  return text
end

-- Calls -------------------------------------------------------------------------------------------------

local outstanding, by_id = 0, {}
local outbox, outbox_size = {}, 0
local call_count, last_flush = 0, clock()

local function start_call(server, tool, text)
  call_count = call_count + 1
  if call_count > config.calls then
    error("the limit of " .. config.calls .. " tool calls in one script is reached", 3)
  end
  local proxy, promise = tasks.new_promise(server .. "." .. tool)
  promise.is_call = true
  by_id[call_count] = promise
  outstanding = outstanding + 1
  local entry = "[" .. call_count .. "," .. quote(server) .. "," .. quote(tool) .. "," .. text .. "]"
  outbox[#outbox + 1] = entry
  outbox_size = outbox_size + #entry
  -- Calls are sent when the script waits, or earlier if it computes for a while between calls.
  if (outbox_size > 1000000 or clock() - last_flush > 0.002) and co_isyieldable() then co_yield(PARK, nil) end
  return proxy
end

local function encode_arguments(arguments, label)
  if arguments == nil then return "{}" end
  if type(arguments) ~= "table" or rawequal(arguments, null) then
    error(label .. " takes one table of named arguments, such as " .. label .. "({name = value})", 3)
  end
  local text, problem = off_the_clock(encode, arguments, "the arguments of " .. label, config.max_arguments)
  if not text then error(problem, 3) end
  if sub(text, 1, 1) == "[" then
    if text ~= "[]" then error(label .. " takes named arguments, such as {name = value}, not a list", 3) end
    return "{}"
  end
  return text
end

local function tool_function(server, proxy, tool)
  local label = server .. "." .. tool
  return function(arguments, extra)
    if rawequal(arguments, proxy) then arguments = extra end -- server:tool{…}
    local text = encode_arguments(arguments, label)
    local promise = start_call(server, tool, text)
    return promise
  end
end

local plain_name = string.gsub

local function server_object(server, tools)
  local proxy = {}
  for _, tool in ipairs(tools or {}) do proxy[tool] = tool_function(server, proxy, tool) end
  return setmetatable(proxy, {
    __name = "server",
    __metatable = "server",
    __tostring = function() return "server " .. server end,
    __index = function(_, key)
      if type(key) ~= "string" then return nil end
      local named = rawget(proxy, (plain_name(key, "[^%w_]", "_"))) -- a name as its server spells it
      if named then return named end
      if tools then error(server .. " has no tool '" .. key .. "'", 2) end
      return tool_function(server, proxy, key)
    end,
  })
end

local function with_options(first_name, first, options, label)
  local all = {}
  if type(first) == "table" and options == nil and not rawequal(getmetatable(first), ARRAY) and rawlen(first) == 0 then
    for key, value in next, first do all[key] = value end
  else
    all[first_name] = first
    if type(options) == "table" then
      for key, value in next, options do all[key] = value end
    end
  end
  return encode_arguments(all, label)
end

local tools = {
  search = function(query, options)
    local promise = start_call("tools", "search", with_options("query", query, options, "tools.search"))
    return promise
  end,
  describe = function(names, detail)
    if type(names) == "string" then names = setmetatable({ names }, ARRAY) end
    local text = encode_arguments({ names = names, detail = detail }, "tools.describe")
    local promise = start_call("tools", "describe", text)
    return promise
  end,
  call = function(name, arguments)
    if type(name) ~= "string" then error("tools.call takes the tool's name and its arguments", 2) end
    local inner = encode_arguments(arguments, name)
    local promise = start_call("tools", "call", '{"name":' .. quote(name) .. ',"arguments":' .. inner .. "}")
    return promise
  end,
}

local results = {
  get = function(id, options)
    local promise = start_call("results", "get", with_options("id", id, options, "results.get"))
    return promise
  end,
}

-- The script's globals ----------------------------------------------------------------------------------

local world = {}
local answered, answer = false, nil

local function wrapped(ok, ...)
  if not ok then error((...), 0) end
  return ...
end

local function bounded(count, what)
  if type(count) == "number" and count > 1e7 then error(what .. ": too many elements", 3) end
end

local function length_of(t)
  local count = type(t) == "table" and #t or 0
  bounded(count, "table")
end

local safe_string = {
  byte = string.byte, char = string.char, find = string.find, format = string.format, gmatch = string.gmatch,
  gsub = string.gsub, len = string.len, lower = string.lower, match = string.match, pack = string.pack,
  packsize = string.packsize, reverse = string.reverse, sub = string.sub, unpack = string.unpack, upper = string.upper,
  rep = function(s, n, separator)
    local count = tonumber(n) or 0
    if count > 0 and count * (#s + #(separator or "") + 1) > config.memory then
      error("not enough memory", 2)
    end
    return rep(s, n, separator)
  end,
}

local table = table
local safe_table = {
  concat = table.concat, pack = table.pack, sort = table.sort, unpack = table.unpack,
  insert = function(t, ...) length_of(t); return table.insert(t, ...) end,
  remove = function(t, ...) length_of(t); return table.remove(t, ...) end,
  move = function(a, from, to, at, b)
    bounded((tonumber(to) or 0) - (tonumber(from) or 0), "table.move")
    if b == nil then return table.move(a, from, to, at) end
    return table.move(a, from, to, at, b)
  end,
}
local co_close = coroutine.close
local safe_coroutine = {
  running = coroutine.running, status = coroutine.status, isyieldable = co_isyieldable, yield = co_yield,
  create = spawn,
  resume = tasks.resume,
  wrap = function(f)
    local co = spawn(f)
    return function(...) return wrapped(tasks.resume(co, ...)) end
  end,
  close = function(co) return reraise(co_close(co)) end,
}

local function array(t)
  if t == nil then t = {} end
  if type(t) ~= "table" then error("array takes a table", 2) end
  return setmetatable(t, ARRAY)
end

local function await_each(list, each, what)
  if type(list) ~= "table" or promise_of(list) then error(what .. " takes a table of calls", 3) end
  local out = setmetatable({}, getmetatable(list) == nil and rawlen(list) > 0 and ARRAY or nil)
  for key, value in next, list do
    if promise_of(value) then out[key] = each(value) else out[key] = each(nil, value) end
  end
  return out
end

for name, value in next, {
  _VERSION = _VERSION, assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select,
  tonumber = tonumber, tostring = tostring, type = type, math = math, utf8 = utf8,
  string = safe_string, table = safe_table, coroutine = safe_coroutine,
  os = { clock = clock, date = os.date, difftime = os.difftime, time = os.time },
  debug = { traceback = function(message) return type(message) == "string" and message or "" end },
  null = null, array = array, tools = tools, results = results, args = config.args,
  collectgarbage = function(option) return option == "count" and collect("count") or 0 end,
  getmetatable = function(t)
    local mt = getmetatable(t)
    if rawequal(mt, ARRAY) then return nil end
    return mt
  end,
  setmetatable = function(t, mt)
    if type(mt) == "table" and rawget(mt, "__gc") ~= nil then error("__gc is not available here", 2) end
    return setmetatable(t, mt)
  end,
  pcall = function(f, ...) return reraise(pcall(f, ...)) end,
  -- A handler called from within the error would run without hooks, and so without a time limit.
  xpcall = function(f, handler, ...)
    local values = pack(reraise(pcall(f, ...)))
    if values[1] then return unpack(values, 1, values.n) end
    return false, handler(values[2])
  end,
  load = function(chunk, name, _, env)
    if type(chunk) == "function" then
      local parts = {}
      for part in chunk do
        if part == "" then break end
        parts[#parts + 1] = part
      end
      chunk = concat(parts)
    end
    return load(chunk, type(name) == "string" and name or "=load", "t", env == nil and world or env)
  end,
  print = function(...)
    local parts = pack(...)
    for index = 1, parts.n do parts[index] = tostring(parts[index]) end
    emit(concat(parts, "\t") .. "\n")
  end,
  result = function(value) answered, answer = true, value end,
  await_all = function(list)
    return await_each(list, function(proxy, value)
      if proxy then return methods.await(proxy) end
      return value
    end, "await_all")
  end,
  settle_all = function(list)
    return await_each(list, function(proxy, value)
      if not proxy then return { ok = true, value = value } end
      local promise = promise_of(proxy)
      tasks.wait_for(promise)
      if promise.state == "failed" then return { ok = false, error = tostring(promise.value) } end
      return { ok = true, value = promise.value }
    end, "settle_all")
  end,
} do
  world[name] = value
end
world._G = world

for server, names in next, config.servers do
  world[server] = server_object(server, names ~= null and names or nil)
end

local strings = getmetatable("")
strings.__index = safe_string
strings.__metatable = "string"

-- The step ----------------------------------------------------------------------------------------------

local has_value = false

local function error_text(problem)
  if type(problem) == "string" then return problem end
  local text
  local mt = getmetatable(problem)
  if type(mt) == "table" and rawget(mt, "__tostring") then
    -- This is the script's own code, so it counts towards its processor time.
    local _, said = co_resume(spawn(function() return tostring(problem) end))
    text = type(said) == "string" and said or nil
  elseif type(problem) == "table" then
    text = encode(problem, "the error", 4096)
  end
  return text or tostring(type(problem) == "table" and "error object" or problem)
end

local function report(kind, message, line, trace)
  return encode({ kind = kind, message = message, line = line, trace = trace }, "the error", 100000)
    or '{"kind":"runtime","message":"an error that cannot be shown"}'
end

local function failed()
  local message = not tasks.is_expired() and error_text(main.value)
  if tasks.is_expired() then -- before, or while the error was asked for its text
    return "failed", report("cpu", "The script " .. tasks.EXPIRED .. ".", tasks.expired_line())
  end
  local kind = "runtime"
  if find(message, "not enough memory", 1, true) then
    kind = "memory"
  elseif tasks.tool_errors[main.value] then
    kind = "tool"
  elseif call_count > config.calls then
    kind = "calls"
  end
  return "failed", report(kind, message, nil, main.trace)
end

local function finished()
  for _, promise in ipairs(tasks.unheard) do
    if not promise.awaited then emit("an error that nobody caught, in " .. promise.label .. ": " .. error_text(promise.value) .. "\n") end
  end
  if not has_value and main.value == nil then return "done", "" end
  local text, problem, too_large = encode(main.value, "the result", config.max_value)
  if not text then return "failed", report(too_large and "output" or "value", problem) end
  return "done", text
end

local function take_outbox()
  if #outbox == 0 then return nil end
  local text = "[" .. concat(outbox, ",") .. "]"
  outbox, outbox_size, last_flush = {}, 0, clock()
  return text
end

local function is_over() return tasks.is_expired() or main.state == "failed" end

local function advance()
  if not is_over() then tasks.run_ready() end
  local calls = take_outbox() -- what was started goes out, even if the script is over
  if calls then return tasks.is_idle() and not is_over() and "calls" or "calls-go", calls end
  if is_over() then return failed() end
  if not tasks.is_idle() then return "go", "" end
  if outstanding > 0 then return "wait", "" end
  if main.state == "running" then
    return "failed", report("deadlock", "The script waits for something that will never come.")
  end
  if answered then main.value, answered, answer = answer, false, nil; has_value = true end
  if promise_of(main.value) then
    -- The answer is a promise: wait for it, as a script would.
    local proxy = main.value
    main.state = "running"
    tasks.make_ready({ main = true, co = spawn(function() return (methods.await(proxy)) end) })
    return "go", ""
  end
  return finished()
end

local function deliver(text)
  local list = off_the_clock(json.decode, text)
  for _, reply in ipairs(list) do
    local promise = by_id[reply[1]]
    if promise then
      by_id[reply[1]] = nil
      outstanding = outstanding - 1
      if reply[2] then tasks.settle(promise, "done", reply[3]) else tasks.settle(promise, "failed", reply[3]) end
    end
  end
end

local function start(source)
  local chunk, problem = load(source, "=script", "t", world)
  if not chunk then return "failed", report("syntax", problem) end
  tasks.make_ready({ main = true, co = spawn(chunk) })
  return advance()
end

-- Scripts cannot reach the libraries' globals anyway; remove them as a second line of defence.
local real = _G
for name in next, real do
  if name ~= "_G" then real[name] = nil end
end

return function(what, text)
  local status, payload
  if what == "start" then
    status, payload = start(text)
  else
    if what == "replies" then deliver(text) end
    status, payload = advance()
  end
  return status, payload, take_printed()
end
