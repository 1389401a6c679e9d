-- Closures, string formatting, table.sort with a comparison function, pcall errors (longjmp),
-- coroutines, metamethods, recursion. Deterministic; prints sums. `arg[1]` scales the work.
local scale = tonumber(arg[1] or 1)

local function tree(depth)
  if depth == 0 then return {} end
  return { tree(depth - 1), tree(depth - 1) }
end
local function count(t) return t[1] and 1 + count(t[1]) + count(t[2]) or 1 end
local nodes = 0
for _ = 1, 4 * scale do nodes = nodes + count(tree(12)) end
print("nodes", nodes)

local function counter()
  local n = 0
  return function(by) n = n + by; return n end
end
local counters = {}
for i = 1, 100 do counters[i] = counter() end
local total = 0
for i = 1, 60000 * scale do total = total + counters[i % 100 + 1](i % 7) end
print("closures", total)

local words = {}
for i = 1, 8000 * scale do words[i] = string.format("%05d-%s-%x", (i * 7919) % 60013, ("x"):rep(i % 7), i) end
table.sort(words, function(a, b) return a < b end)
print("sorted", words[1], words[#words])

local letters = 0
for _, w in ipairs(words) do
  local swapped = w:gsub("(%d)(%d)", "%2%1"):upper()
  for pair in swapped:gmatch("%d%d") do letters = letters + tonumber(pair) end
end
print("strings", letters)

local ok, failed = 0, 0
for i = 1, 15000 * scale do
  local fine, message = pcall(function()
    if i % 3 == 0 then error({ code = i }) end
    if i % 5 == 0 then local _ = nil + i end
    return i
  end)
  if fine then ok = ok + 1 else failed = failed + (type(message) == "table" and message.code % 2 or 1) end
end
print("pcall", ok, failed)

local function nested(depth)
  if depth == 0 then error("deep") end
  local fine = pcall(nested, depth - 1)
  if not fine and depth % 2 == 0 then error("again") end
  return depth
end
local caught = 0
for _ = 1, 300 * scale do if not pcall(nested, 40) then caught = caught + 1 end end
print("nested pcall", caught)

local generate = coroutine.wrap(function() for i = 1, 40000 * scale do coroutine.yield(i) end end)
local sum = 0
for _ = 1, 40000 * scale do sum = sum + generate() end
print("coroutines", sum)

local meta = { __index = function(_, k) return k * 2 end, __add = function(a, b) return a.v + b.v end }
local object = setmetatable({ v = 1 }, meta)
local m = 0
for i = 1, 60000 * scale do m = m + object[i] + (object + object) end
print("metamethods", m)

local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print("fib", fib(24 + scale))
