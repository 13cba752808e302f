-- JSON for scripts: text to Lua values and back, without loss. Part of the prelude; knows nothing of scripts or the host.
-- Tables are read raw, so that no metamethod of the script runs in here. `pending_label(table)` is defined by
-- prelude_tasks.lua: the name of the call whose promise a table is, or nil.

local pending_label = ...

local type, next, tostring, tonumber, error, pcall = type, next, tostring, tonumber, error, pcall
local rawget, rawequal, setmetatable, getmetatable = rawget, rawequal, setmetatable, getmetatable
local byte, char, find, format, gsub, match, sub =
  string.byte, string.char, string.find, string.format, string.gsub, string.match, string.sub
local concat = table.concat
local tointeger, math_type, huge = math.tointeger, math.type, math.huge
local utf8_len, utf8_char = utf8.len, utf8.char

local ARRAY = { __name = "array" }

local null = setmetatable({}, {
  __name = "null",
  __tostring = function() return "null" end,
  __index = function(_, key) error("this value is null: it has no '" .. tostring(key) .. "'", 2) end,
  __newindex = function() error("this value is null: it cannot be changed", 2) end,
  __metatable = "null",
})

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

local encode_value

-- What a table is in JSON: "array" and its length, or "object".
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
  local pending = pending_label(t)
  if pending then
    error({ value_error = path .. " is a pending call of " .. pending .. ": use :await() to get its value" }, 0)
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

-- The JSON text of a value, or nil and the reason.
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

-- The host sends compact, valid JSON, so this decoder expects neither spaces nor errors.
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

return {
  ARRAY = ARRAY,
  null = null,
  quote = quote,
  encode = encode,
  decode = function(text) return (decode_value(text, 1)) end,
}
