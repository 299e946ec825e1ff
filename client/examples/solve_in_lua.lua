-- Asks for a schedule in Lua, through the C interface and LuaJIT's foreign function interface:
-- prints the events of the solve, as JSON. The first argument is the path of libstowage.so, which
-- the Python package has beside its modules; the second one bytes of memory.
--   luajit solve_in_lua.lua …/site-packages/stowage/libstowage.so 20971520
local ffi = require("ffi")
ffi.cdef [[
  typedef struct stowage_call stowage_call;
  stowage_call* stowage_solve(const char* request, size_t size);
  const char* stowage_next(stowage_call* call, int milliseconds);
  int stowage_has_ended(stowage_call* call);
  void stowage_free(stowage_call* call);
]]
local stowage = ffi.load(arg[1])

-- Eight equal layers: times in seconds, sizes in bytes.
local layer = [[{"forward_seconds": 0.01, "backward_seconds": 0.02,
                 "output_bytes": 1048576, "saved_bytes": 4194304}]]
local request = string.format(
  [[{"chain": {"input_bytes": 1048576, "stages": [%s]}, "platform": {"memory_bytes": %s}}]],
  layer .. string.rep("," .. layer, 7), arg[2])

local call = ffi.gc(stowage.stowage_solve(request, #request), stowage.stowage_free)
while stowage.stowage_has_ended(call) == 0 do
  local event = stowage.stowage_next(call, 1000)
  if event ~= nil then print(ffi.string(event)) end
end
