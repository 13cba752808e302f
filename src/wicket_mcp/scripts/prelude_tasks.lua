-- Promises, the tasks that wait for them, and their shared processor time. Part of the prelude; knows neither calls
-- nor the script's globals. A coroutine that waits yields PARK up to `run_ready`, through all coroutines of the
-- script in between.

local cpu = ...

local type, error, pcall, setmetatable, ipairs, rawequal = type, error, pcall, setmetatable, ipairs, rawequal
local unpack, pack = table.unpack, table.pack
local co_create, co_resume, co_yield = coroutine.create, coroutine.resume, coroutine.yield
local co_status, co_isyieldable = coroutine.status, coroutine.isyieldable
local sethook, traceback, getinfo = debug.sethook, debug.traceback, debug.getinfo
local clock = os.clock

-- Processor time ----------------------------------------------------------------------------------------

local EXPIRED = "used up its processor time"
local deadline = clock() + cpu
local expired, expired_line = false, nil

local function current_line(from)
  for level = from, from + 40 do
    local info = getinfo(level, "Sl")
    if not info then return nil end
    if info.short_src == "script" then return info.currentline end
  end
end

local function tick()
  if expired or clock() > deadline then
    if not expired then expired, expired_line = true, current_line(3) end
    error(EXPIRED, 0)
  end
end

local function spawn(f)
  local co = co_create(f)
  sethook(co, tick, "", 10000)
  return co
end

-- Our own work does not count towards the script's processor time.
local function off_the_clock(f, ...)
  local before = clock()
  local results = pack(f(...))
  deadline = deadline + clock() - before
  return unpack(results, 1, results.n)
end

-- Promises ----------------------------------------------------------------------------------------------

local promises = setmetatable({}, { __mode = "k" }) -- proxy -> what it stands for
local main = { state = "running" } -- the script itself
local unheard = {} -- failed callbacks that nobody waits for

local function promise_of(value) return type(value) == "table" and promises[value] or nil end

local PARK = {} -- what a coroutine yields up to the scheduler; scripts never see it
local ready, ready_from, ready_to = {}, 1, 0

local function make_ready(task)
  ready_to = ready_to + 1
  ready[ready_to] = task
end

local tool_errors = {} -- messages of failed calls, as they were raised

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
      local line = current_line(3)
      if line then problem = "script:" .. line .. ": " .. problem end
      tool_errors[problem] = true
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

-- The script's coroutines -------------------------------------------------------------------------------

local function reraise(ok, ...)
  if not ok and expired then error(EXPIRED, 0) end
  return ok, ...
end

-- Passes PARK from an inner coroutine up to whoever resumed it, until it reaches the scheduler.
local function resumed(co, ok, first, ...)
  while ok and rawequal(first, PARK) do
    local values = pack(co_resume(co, co_yield(PARK, ...)))
    if not (values[1] and rawequal(values[2], PARK)) then return reraise(unpack(values, 1, values.n)) end
    return resumed(co, unpack(values, 1, values.n))
  end
  return reraise(ok, first, ...)
end

local function resume(co, ...) return resumed(co, co_resume(co, ...)) end

-- The scheduler -----------------------------------------------------------------------------------------

local function finish_task(task, ok, value)
  if task.main then
    main.state, main.value = ok and "done" or "failed", value
    if not ok then main.trace = traceback(task.co) end
    return
  end
  settle(task.promise, ok and "done" or "failed", value)
  if not ok and not expired and not task.promise.awaited then task.promise.unheard = true end
end

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
  if not task.main and task.promise.unheard then unheard[#unheard + 1] = task.promise end
  return false
end

local function run_ready()
  while ready_from <= ready_to do
    local task = ready[ready_from]
    ready[ready_from] = nil
    ready_from = ready_from + 1
    if run_task(task) or expired or main.state == "failed" then break end
  end
end

return {
  EXPIRED = EXPIRED,
  PARK = PARK,
  main = main,
  unheard = unheard,
  tool_errors = tool_errors,
  methods = methods,
  spawn = spawn,
  off_the_clock = off_the_clock,
  promise_of = promise_of,
  new_promise = new_promise,
  settle = settle,
  wait_for = wait_for,
  make_ready = make_ready,
  run_ready = run_ready,
  reraise = reraise,
  resume = resume,
  is_idle = function() return ready_from > ready_to end,
  is_expired = function() return expired end,
  expired_line = function() return expired_line end,
}
