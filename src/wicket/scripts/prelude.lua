-- The inside of a Lua jail: the script's globals, promises, JSON, and the scheduler that the host drives.
-- The host calls `step` and gets strings; nothing of the host is ever a value in here. Whatever this file
-- promises to a script is comfort: the process around it is what holds.

local config_text = ...

local type, next, select, tostring, tonumber, error, pcall, assert, load =
  type, next, select, tostring, tonumber, error, pcall, assert, load
local rawget, rawset, rawlen, rawequal, setmetatable, getmetatable, pairs, ipairs =
  rawget, rawset, rawlen, rawequal, setmetatable, getmetatable, pairs, ipairs
local byte, char, find, format, gsub, match, rep, sub =
  string.byte, string.char, string.find, string.format, string.gsub, string.match, string.rep, string.sub
local concat, unpack, pack = table.concat, table.unpack, table.pack
local tointeger, math_type, huge = math.tointeger, math.type, math.huge
local utf8_len, utf8_char = utf8.len, utf8.char
local co_create, co_resume, co_yield = coroutine.create, coroutine.resume, coroutine.yield
local co_status, co_running, co_close, co_isyieldable =
  coroutine.status, coroutine.running, coroutine.close, coroutine.isyieldable
local sethook, traceback, getinfo = debug.sethook, debug.traceback, debug.getinfo
local clock, os_time, os_date, os_difftime = os.clock, os.time, os.date, os.difftime
local collect = collectgarbage

-- Values that JSON has and Lua has not ------------------------------------------------------------------

local ARRAY = { __name = "array" }

local null = setmetatable({}, {
  __name = "null",
  __tostring = function() return "null" end,
  __index = function(_, key) error("this value is null: it has no '" .. tostring(key) .. "'", 2) end,
  __newindex = function() error("this value is null: it cannot be changed", 2) end,
  __metatable = "null",
})

-- JSON --------------------------------------------------------------------------------------------------

local MAX_DEPTH = 64
local ESCAPED = { ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
for code = 0, 31 do
  local c = char(code)
  ESCAPED[c] = ESCAPED[c] or format("\\u%04x", code)
end
local UNESCAPED = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function valid_utf8(s)
  local length, bad = utf8_len(s)
  if length then return s end
  local parts, from = {}, 1
  while not length do
    parts[#parts + 1] = sub(s, from, bad - 1)
    parts[#parts + 1] = "\u{FFFD}"
    from = bad + 1
    length, bad = utf8_len(s, from)
  end
  parts[#parts + 1] = sub(s, from)
  return concat(parts)
end

local function quote(s)
  if find(s, '[%c"\\]') then s = gsub(s, '[%c"\\]', ESCAPED) end
  if find(s, "[\128-\255]") then s = valid_utf8(s) end
  return '"' .. s .. '"'
end

local promises = setmetatable({}, { __mode = "k" }) -- proxy -> what it stands for

local encode_value

-- How a table reads as JSON: "array" and its length, or "object".
local function shape(t)
  local count, top, plain = 0, 0, true
  for key in next, t do
    count = count + 1
    if math_type(key) == "integer" and key >= 1 then
      if key > top then top = key end
    else
      plain = false
    end
  end
  if count == 0 then return rawequal(getmetatable(t), ARRAY) and "array" or "object", 0 end
  if plain and top <= count * 2 then return "array", top end
  return "object", count
end

local function encode_table(t, out, path, depth, seen)
  if rawequal(t, null) then
    out.size = out.size + 4
    out[#out + 1] = "null"
    return
  end
  local promise = promises[t]
  if promise then
    error({ value_error = path .. " is a pending call of " .. promise.label .. ": use :await() to get its value" }, 0)
  end
  if seen[t] then error({ value_error = path .. " contains itself" }, 0) end
  if depth > MAX_DEPTH then error({ value_error = path .. " is nested deeper than " .. MAX_DEPTH }, 0) end
  seen[t] = true
  local kind, count = shape(t)
  if kind == "array" then
    out[#out + 1] = "["
    for index = 1, count do
      if index > 1 then out[#out + 1] = "," end
      encode_value(rawget(t, index), out, path, index, depth + 1, seen)
    end
    out[#out + 1] = "]"
  else
    out[#out + 1] = "{"
    local first = true
    for key, value in next, t do
      local name
      if type(key) == "string" then
        name = key
      elseif type(key) == "number" then
        name = tostring(key)
      else
        error({ value_error = path .. " has a key that is a " .. type(key) .. ": only text and numbers can be keys" }, 0)
      end
      name = quote(name)
      out[#out + 1] = first and name .. ":" or "," .. name .. ":"
      out.size = out.size + #name
      first = false
      encode_value(value, out, path, key, depth + 1, seen)
    end
    out[#out + 1] = "}"
  end
  seen[t] = nil
end

local function number_text(n)
  if n ~= n or n == huge or n == -huge then return "null" end
  local whole = tointeger(n)
  if whole then return format("%d", whole) end
  local text = format("%.15g", n)
  if tonumber(text) ~= n then text = format("%.17g", n) end
  return text
end

function encode_value(value, out, path, key, depth, seen)
  local kind = type(value)
  local text
  if kind == "table" then
    if key ~= nil then path = path .. (type(key) == "string" and "." .. key or "[" .. tostring(key) .. "]") end
    encode_table(value, out, path, depth, seen)
    text = ""
  elseif kind == "string" then text = quote(value)
  elseif kind == "number" then text = number_text(value)
  elseif kind == "boolean" then text = value and "true" or "false"
  elseif kind == "nil" then text = "null"
  else
    if key ~= nil then path = path .. (type(key) == "string" and "." .. key or "[" .. tostring(key) .. "]") end
    error({ value_error = path .. " is a " .. kind .. ": only data can be sent" }, 0)
  end
  out[#out + 1] = text
  out.size = out.size + #text + 1
  if out.size > out.most then error({ value_error = out.what .. " is larger than " .. out.most .. " bytes", too_large = true }, 0) end
end

-- JSON text of a value, or nil and what is wrong with it.
local function encode(value, what, most)
  local out = { size = 0, most = most, what = what }
  local ok, problem = pcall(encode_value, value, out, what, nil, 1, {})
  if ok then return concat(out) end
  if type(problem) == "table" then return nil, problem.value_error, problem.too_large end
  return nil, tostring(problem)
end

local decode_value

local function surrogates(high, low)
  return utf8_char(0x10000 + (tonumber(high, 16) - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00)
end

local function plain_escape(hex)
  local code = tonumber(hex, 16)
  if code >= 0xD800 and code <= 0xDFFF then return "\u{FFFD}" end
  return utf8_char(code)
end

local function decode_escapes(s)
  local out, from = {}, 1
  while true do
    local at = find(s, "\\", from, true)
    if not at then break end
    out[#out + 1] = sub(s, from, at - 1)
    local kind = sub(s, at + 1, at + 1)
    if kind == "u" then
      local high, low = match(s, "^([dD][89abAB]%x%x)\\u([dD][c-fC-F]%x%x)", at + 2)
      if high then
        out[#out + 1] = surrogates(high, low)
        from = at + 12
      else
        out[#out + 1] = plain_escape(sub(s, at + 2, at + 5))
        from = at + 6
      end
    else
      out[#out + 1] = UNESCAPED[kind]
      from = at + 2
    end
  end
  out[#out + 1] = sub(s, from)
  return concat(out)
end

local function decode_string(s, at)
  local stop = find(s, '["\\]', at + 1)
  if byte(s, stop) == 34 then return sub(s, at + 1, stop - 1), stop + 1 end
  while byte(s, stop) == 92 do stop = find(s, '["\\]', stop + 2) end
  return decode_escapes(sub(s, at + 1, stop - 1)), stop + 1
end

local function decode_array(s, at)
  local list, count = setmetatable({}, ARRAY), 0
  if byte(s, at + 1) == 93 then return list, at + 2 end
  repeat
    count = count + 1
    list[count], at = decode_value(s, at + 1)
  until byte(s, at) ~= 44
  return list, at + 1
end

local function decode_object(s, at)
  local object = {}
  if byte(s, at + 1) == 125 then return object, at + 2 end
  repeat
    local key, value
    key, at = decode_string(s, at + 1)
    value, at = decode_value(s, at + 1)
    object[key] = value
  until byte(s, at) ~= 44
  return object, at + 1
end

-- The host sends compact, valid JSON, so this decoder looks for no spaces and no mistakes.
function decode_value(s, at)
  local c = byte(s, at)
  if c == 34 then return decode_string(s, at) end
  if c == 123 then return decode_object(s, at) end
  if c == 91 then return decode_array(s, at) end
  if c == 116 then return true, at + 4 end
  if c == 102 then return false, at + 5 end
  if c == 110 then return null, at + 4 end
  local from, stop = find(s, "^-?[%d.eE+-]+", at)
  local text = sub(s, from, stop)
  local number = tonumber(text)
  if math_type(number) == "float" and not find(text, "[.eE]") then number = text end -- beyond 64 bits: digits
  return number, stop + 1
end

local config = decode_value(config_text, 1)
math.randomseed(config.seed) -- forks of one runtime would all draw the same numbers

-- The CPU budget ----------------------------------------------------------------------------------------

local EXPIRED = "used up its processor time"
local deadline = clock() + config.cpu
local expired, expired_line = false, nil

local function current_line()
  for level = 3, 40 do
    local info = getinfo(level, "Sl")
    if not info then return nil end
    if info.short_src == "script" then return info.currentline end
  end
end

local function tick()
  if expired or clock() > deadline then
    if not expired then expired, expired_line = true, current_line() end
    error(EXPIRED, 0)
  end
end

local function spawn(f)
  local co = co_create(f)
  sethook(co, tick, "", 10000)
  return co
end

-- Work that is ours, not the script's, does not count.
local function off_the_clock(f, ...)
  local before = clock()
  local results = pack(f(...))
  deadline = deadline + clock() - before
  return unpack(results, 1, results.n)
end

-- Printing ----------------------------------------------------------------------------------------------

local printed, printed_size = {}, 0

local function emit(text)
  if printed_size >= config.printed then return end
  if printed_size + #text > config.printed then
    text = sub(text, 1, config.printed - printed_size) .. "\n… cut: more was printed than is kept\n"
    printed_size = config.printed
  else
    printed_size = printed_size + #text
  end
  printed[#printed + 1] = text
end

local function take_printed()
  if #printed == 0 then return "" end
  local text = quote(concat(printed))
  printed = {}
  return text
end

-- Promises and tasks ------------------------------------------------------------------------------------

local PARK = {} -- what a coroutine yields up to the scheduler; scripts never see it
local ready, ready_from, ready_to = {}, 1, 0

local function make_ready(task)
  ready_to = ready_to + 1
  ready[ready_to] = task
end

local outstanding, by_id = 0, {}
local outbox, outbox_size = {}, 0
local call_count, last_flush = 0, clock()
local tool_errors = {}

local Promise = { __name = "promise", __metatable = "promise" }

local function new_promise(label)
  local proxy = setmetatable({}, Promise)
  local promise = { state = "pending", label = label, waiters = {} }
  promises[proxy] = promise
  return proxy, promise
end

local function settle(promise, state, value)
  if promise.state ~= "pending" then return end
  promise.state, promise.value = state, value
  for _, task in ipairs(promise.waiters) do make_ready(task) end
  promise.waiters = {}
end

local function wait_for(promise)
  promise.awaited = true
  if promise.state == "pending" then
    if not co_isyieldable() then
      error("cannot await inside a callback of table.sort, string.gsub or load: collect the values first, then await", 3)
    end
    co_yield(PARK, promise)
  end
end

local function start_task(body, promise)
  make_ready({ co = spawn(body), promise = promise })
end

local function as_promise(value, what)
  local promise = type(value) == "table" and promises[value]
  if not promise then error(what .. " works on a call that was started, got a " .. type(value), 3) end
  return promise
end

local methods = {}

function methods.await(proxy)
  local promise = as_promise(proxy, ":await()")
  wait_for(promise)
  if promise.state == "failed" then
    local problem = promise.value
    if type(problem) == "string" and promise.is_call then
      local info = getinfo(2, "Sl")
      if info and info.short_src == "script" then
        problem = "script:" .. info.currentline .. ": " .. problem
        tool_errors[problem] = true
      end
    end
    error(problem, 0)
  end
  return promise.value
end

local function follow(proxy, label, body)
  local promise = as_promise(proxy, ":" .. label .. "()")
  local derived_proxy, derived = new_promise(promise.label .. ":" .. label)
  derived.is_task = true
  start_task(function()
    wait_for(promise)
    local value = body(promise)
    if type(value) == "table" and promises[value] then value = methods.await(value) end
    return value
  end, derived)
  return derived_proxy
end

local function outcome_of(promise)
  if promise.state == "failed" then error(promise.value, 0) end
  return promise.value
end

function methods.next(proxy, on_value, on_error)
  return follow(proxy, "next", function(promise)
    if promise.state == "failed" and on_error then return on_error(promise.value) end
    if promise.state ~= "failed" and on_value then return on_value(promise.value) end
    return outcome_of(promise)
  end)
end

function methods.catch(proxy, on_error)
  return methods.next(proxy, nil, on_error)
end

methods["finally"] = function(proxy, on_end)
  return follow(proxy, "finally", function(promise)
    local value = on_end and on_end()
    if type(value) == "table" and promises[value] then methods.await(value) end
    return outcome_of(promise)
  end)
end

local function not_yet(proxy, key)
  local promise = promises[proxy]
  local label = promise and promise.label or "a call"
  local reading = type(key) == "string" and " before reading '" .. key .. "'" or " first"
  error("this is a pending call of " .. label .. ": use :await()" .. reading, 2)
end

Promise.__index = function(proxy, key) return methods[key] or not_yet(proxy, key) end
Promise.__tostring = function(proxy) return "pending call of " .. promises[proxy].label end
for _, event in ipairs({ "newindex", "call", "len", "concat", "pairs", "add", "sub", "mul", "div", "unm", "lt", "le", "idiv", "mod" }) do
  Promise["__" .. event] = function(a, b) not_yet(promises[a] and a or b) end
end

-- Calls -------------------------------------------------------------------------------------------------

local function start_call(server, tool, text)
  call_count = call_count + 1
  if call_count > config.calls then
    error("the limit of " .. config.calls .. " tool calls in one script is reached", 3)
  end
  local proxy, promise = new_promise(server .. "." .. tool)
  promise.is_call = true
  by_id[call_count] = promise
  outstanding = outstanding + 1
  local entry = "[" .. call_count .. "," .. quote(server) .. "," .. quote(tool) .. "," .. text .. "]"
  outbox[#outbox + 1] = entry
  outbox_size = outbox_size + #entry
  -- Calls go out when the script waits; one that computes for a while between calls lets go sooner.
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

local function server_object(server, tools)
  local proxy = {}
  for _, tool in ipairs(tools or {}) do proxy[tool] = tool_function(server, proxy, tool) end
  return setmetatable(proxy, {
    __name = "server",
    __metatable = "server",
    __tostring = function() return "server " .. server end,
    __index = function(_, key)
      if type(key) ~= "string" then return nil end
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

-- The script's world ------------------------------------------------------------------------------------

local world = {}
local answered, answer = false, nil

local function reraise(ok, ...)
  if not ok and expired then error(EXPIRED, 0) end
  return ok, ...
end

-- Passes a park of an inner coroutine up to whoever resumed it, until the scheduler has it.
local function resumed(co, ok, first, ...)
  while ok and rawequal(first, PARK) do
    local values = pack(co_resume(co, co_yield(PARK, ...)))
    if not (values[1] and rawequal(values[2], PARK)) then return reraise(unpack(values, 1, values.n)) end
    return resumed(co, unpack(values, 1, values.n))
  end
  return reraise(ok, first, ...)
end

local function resume(co, ...) return resumed(co, co_resume(co, ...)) end

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
local safe_coroutine = {
  running = co_running, status = co_status, isyieldable = co_isyieldable, yield = co_yield,
  create = spawn,
  resume = resume,
  wrap = function(f)
    local co = spawn(f)
    return function(...) return wrapped(resume(co, ...)) end
  end,
  close = function(co) return reraise(co_close(co)) end,
}

local function array(t)
  if t == nil then t = {} end
  if type(t) ~= "table" then error("array takes a table", 2) end
  return setmetatable(t, ARRAY)
end

local function await_each(list, each, what)
  if type(list) ~= "table" or promises[list] then error(what .. " takes a table of calls", 3) end
  local out = setmetatable({}, getmetatable(list) == nil and rawlen(list) > 0 and ARRAY or nil)
  for key, value in next, list do
    if type(value) == "table" and promises[value] then out[key] = each(value) else out[key] = each(nil, value) end
  end
  return out
end

for name, value in next, {
  _VERSION = _VERSION, assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select,
  tonumber = tonumber, tostring = tostring, type = type, math = math, utf8 = utf8,
  string = safe_string, table = safe_table, coroutine = safe_coroutine,
  os = { clock = clock, date = os_date, difftime = os_difftime, time = os_time },
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
  -- A handler called from the error itself would run with hooks off, and could run for ever.
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
      local promise = promises[proxy]
      wait_for(promise)
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

-- The scheduler -----------------------------------------------------------------------------------------

local main_state, main_value, main_problem, has_value = "running", nil, nil, false

local function error_text(problem)
  if type(problem) == "string" then return problem end
  local text
  local mt = getmetatable(problem)
  if type(mt) == "table" and rawget(mt, "__tostring") then
    -- The script's own code: under the clock, like all of it.
    local _, said = co_resume(spawn(function() return tostring(problem) end))
    text = type(said) == "string" and said or nil
  elseif type(problem) == "table" then
    text = encode(problem, "the error", 4096)
  end
  return text or tostring(type(problem) == "table" and "error object" or problem)
end

local function finish_task(task, ok, value)
  if task.main then
    main_state, main_value = ok and "done" or "failed", value
    if not ok then main_problem = { value = value, trace = traceback(task.co) } end
    return
  end
  settle(task.promise, ok and "done" or "failed", value)
  if not ok and not expired and not task.promise.awaited then task.promise.unheard = true end
end

local tasks_unheard = {}

local function run_task(task)
  local ok, first, second = co_resume(task.co)
  if ok and co_status(task.co) == "suspended" then
    if not rawequal(first, PARK) then
      finish_task(task, false, "coroutine.yield was called outside of a coroutine")
    elseif second == nil then
      make_ready(task)
      return true
    elseif second.state == "pending" then
      second.waiters[#second.waiters + 1] = task
    else
      make_ready(task)
    end
    return false
  end
  finish_task(task, ok, first)
  if not task.main and task.promise.unheard then tasks_unheard[#tasks_unheard + 1] = task.promise end
  return false
end

local function run_ready()
  while ready_from <= ready_to do
    local task = ready[ready_from]
    ready[ready_from] = nil
    ready_from = ready_from + 1
    if run_task(task) or expired or main_state == "failed" then break end
  end
end

local function report(kind, message, line, trace)
  return encode({ kind = kind, message = message, line = line, trace = trace }, "the error", 100000)
    or '{"kind":"runtime","message":"an error that cannot be shown"}'
end

local function failed()
  if expired then return "failed", report("cpu", "The script " .. EXPIRED .. ".", expired_line) end
  local message = error_text(main_problem.value)
  if expired then return "failed", report("cpu", "The script " .. EXPIRED .. ".", expired_line) end
  local kind = "runtime"
  if find(message, "not enough memory", 1, true) then
    kind = "memory"
  elseif tool_errors[main_problem.value] then
    kind = "tool"
  elseif call_count > config.calls then
    kind = "calls"
  end
  return "failed", report(kind, message, nil, main_problem.trace)
end

local function finished()
  for _, promise in ipairs(tasks_unheard) do
    if not promise.awaited then emit("an error that nobody caught, in " .. promise.label .. ": " .. error_text(promise.value) .. "\n") end
  end
  if not has_value and main_value == nil then return "done", "" end
  local text, problem, too_large = encode(main_value, "the result", config.max_value)
  if not text then return "failed", report(too_large and "output" or "value", problem) end
  return "done", text
end

local function take_outbox()
  if #outbox == 0 then return nil end
  local text = "[" .. concat(outbox, ",") .. "]"
  outbox, outbox_size, last_flush = {}, 0, clock()
  return text
end

local function advance()
  run_ready()
  if expired or main_state == "failed" then return failed() end
  local calls = take_outbox()
  if calls then return ready_from <= ready_to and "calls-go" or "calls", calls end
  if ready_from <= ready_to then return "go", "" end
  if outstanding > 0 then return "wait", "" end
  if main_state == "running" then
    return "failed", report("deadlock", "The script waits for something that will never come.")
  end
  if answered then main_value, answered, answer = answer, false, nil; has_value = true end
  if type(main_value) == "table" and promises[main_value] then
    -- A promise as the answer: wait for it like a script would.
    local proxy = main_value
    main_state = "running"
    make_ready({ main = true, co = spawn(function() return (methods.await(proxy)) end) })
    return "go", ""
  end
  return finished()
end

local function deliver(text)
  local list = off_the_clock(decode_value, text, 1)
  for _, reply in ipairs(list) do
    local promise = by_id[reply[1]]
    if promise then
      by_id[reply[1]] = nil
      outstanding = outstanding - 1
      if reply[2] then settle(promise, "done", reply[3]) else settle(promise, "failed", reply[3]) end
    end
  end
end

local function start(source)
  local chunk, problem = load(source, "=script", "t", world)
  if not chunk then return "failed", report("syntax", problem) end
  make_ready({ main = true, co = spawn(chunk) })
  return advance()
end

-- Everything the libraries put into the real globals is out of reach of scripts already; drop it all the same.
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
