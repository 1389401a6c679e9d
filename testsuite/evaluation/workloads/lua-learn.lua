-- Another workload than lua.lua: queens, a parser of expressions with an evaluator, matrices, words of a text that is
-- made, objects with inheritance.
-- `arg[1]` is how often.
local function all()
  local function place(n, row, columns, up, down)
    if row > n then return 1 end
    local found = 0
    for c = 1, n do
      if not columns[c] and not up[row + c] and not down[row - c + n] then
        columns[c], up[row + c], down[row - c + n] = true, true, true
        found = found + place(n, row + 1, columns, up, down)
        columns[c], up[row + c], down[row - c + n] = nil, nil, nil
      end
    end
    return found
  end
  print("queens", place(8, 1, {}, {}, {}))

  local function parse(text)
    local at = 1
    local sum
    local function factor()
      local number = text:match("^%d+", at)
      if number then at = at + #number; return { "n", tonumber(number) } end
      at = at + 1
      local inner = sum()
      at = at + 1
      return inner
    end
    local function product()
      local left = factor()
      while text:sub(at, at) == "*" do at = at + 1; left = { "*", left, factor() } end
      return left
    end
    function sum()
      local left = product()
      while text:find("^[+-]", at) do
        local operator = text:sub(at, at)
        at = at + 1
        left = { operator, left, product() }
      end
      return left
    end
    return sum()
  end
  local function value(node)
    if node[1] == "n" then return node[2] end
    local a, b = value(node[2]), value(node[3])
    return node[1] == "+" and a + b or node[1] == "-" and a - b or a * b % 1000003
  end
  local total = 0
  for i = 1, 3000 do
    total = total + value(parse(("(%d+%d*(%d-7))*%d+%d"):format(i, i % 13, i % 29, i % 5, i)))
  end
  print("expressions", total)

  local function matrix(n, seed)
    local m = {}
    for i = 1, n do
      m[i] = {}
      for j = 1, n do m[i][j] = (i * seed + j * 7) % 11 end
    end
    return m
  end
  local function times(a, b)
    local n, c = #a, {}
    for i = 1, n do
      local row = {}
      for j = 1, n do
        local sum = 0
        for k = 1, n do sum = sum + a[i][k] * b[k][j] end
        row[j] = sum
      end
      c[i] = row
    end
    return c
  end
  print("matrix", times(matrix(60, 3), matrix(60, 5))[17][23])

  local Animal = {}
  Animal.__index = Animal
  function Animal.new(class, name) return setmetatable({ name = name, eaten = 0 }, class) end
  function Animal:eat(n) self.eaten = self.eaten + n; return self end
  function Animal:say() return self.name .. " " .. self:sound() end
  local Dog = setmetatable({}, { __index = Animal })
  Dog.__index = Dog
  function Dog:sound() return "woof" end
  local Cat = setmetatable({}, { __index = Animal })
  Cat.__index = Cat
  function Cat:sound() return "meow" end
  local said = 0
  for i = 1, 20000 do
    local animal = (i % 2 == 0 and Dog or Cat):new("n" .. i % 100):eat(i % 3):eat(1)
    said = said + #animal:say()
  end
  print("objects", said)

  local parts = {}
  for i = 1, 4000 do parts[#parts + 1] = ("w%d"):format(i * 31 % 997) end
  local count = {}
  for word in table.concat(parts, " "):gmatch("%a+%d+") do count[word] = (count[word] or 0) + 1 end
  local keys = {}
  for word in pairs(count) do keys[#keys + 1] = word end
  table.sort(keys)
  print("words", #keys, keys[1], table.concat(keys, ","):reverse():sub(1, 10))
end
for _ = 1, tonumber(arg[1] or 1) do all() end
