-- Packets of a software Angara, as `angara capture` and `angara run --capture` write them: link type USER0, a
-- pseudo-header, then the packet as the chip has it. docs/reference/formats.md and docs/reference/registers.md have the
-- layouts. Put this file where Wireshark looks for plugins (Help, About, Folders: Personal Lua Plugins), or start
-- Wireshark or tshark with -X lua_script:angara.lua.

local angara = Proto("angara", "Angara")
angara.prefs.check_crc = Pref.bool("Check CRCs", true, "Compute the CRC-32C of every packet that was captured whole")

local FLIT, HOST, NO_JOB = 16, 255, 0xffffffff
local HEAD = { version = 1, length = 64 }

local names = {
  event = { [0] = "Injected", "Sent", "Replayed", "Corrupted", "Dropped", "Ejected" },
  reason = { [0] = "none", "no way is left", "second copy", "out of order", "no such endpoint", "its job has ended" },
  vc = { [0] = "response", "request", "adaptive", "up", "down" },
  class = { [0] = "put", "get", "atomic", "sync" },
  dir = { [0] = "+X", "+Y", "+Z", "+W", "-X", "-Y", "-Z", "-W", [HOST] = "host" },
  type = {
    [0] = "Ctrl", "Write", "ReadReq", "ReadRsp", "AtomicAdd", "AtomicXor", "BcastUp", "BcastDown", "Reduce", "CollCredit",
    "Service", "Barrier",
  },
  region = { [0] = "heap", "static", "bounce" },
  atomic = { [0] = "add", "xor", "and", "or", "swap", "compare-swap", "fetch" },
  reduce_op = { [0] = "sum", "maximum", "minimum" },
  elem = { [0] = "i32", "u32", "i64", "u64" },
}
local WRITE, READ_REQ, READ_RSP, SERVICE, BARRIER = 1, 2, 3, 10, 11

local f = {}
local function field(kind, name, text, ...)
  f[name] = ProtoField[kind]("angara." .. name:gsub("__", "."), text, ...)
end
-- The pseudo-header.
field("uint8", "pseudo__version", "Version of the pseudo-header")
field("uint8", "pseudo__length", "Bytes of the pseudo-header")
field("uint8", "event", "What happens", base.DEC, names.event)
field("uint8", "reason", "Dropped since", base.DEC, names.reason)
field("uint32", "length", "Bytes of the packet")
field("uint64", "time", "Network time (ps)")
field("uint32", "node", "Node")
field("string", "coords", "Coordinates")
field("uint8", "dir", "Direction", base.DEC, names.dir)
field("string", "link", "Link")
field("uint8", "vc", "Virtual channel", base.DEC, names.vc)
field("uint8", "class", "Class", base.DEC, names.class)
field("bool", "train", "Several packets behind one header", 8, nil, 0x01)
field("bool", "foreign", "From another host", 8, nil, 0x02)
field("uint8", "dims", "Dimensions of the network", base.DEC, nil, 0xf0)
field("uint32", "job", "Job")
field("string", "src", "Source")
field("uint32", "src__node", "Source node")
field("uint16", "src__endpoint", "Source endpoint")
field("string", "dst", "Target")
field("uint16", "dst__endpoint", "Target endpoint")
field("uint16", "bytes", "Payload bytes")
field("uint16", "seq", "Link sequence number")
field("uint64", "op", "Operation of the requester", base.HEX)
field("uint64", "packet", "Packet number")
-- The header flit.
field("uint8", "type", "Type", base.DEC, names.type)
field("uint8", "data_flits", "Data flits")
field("uint8", "header_vc", "Virtual channel of injection", base.DEC, names.vc)
field("bool", "adaptive", "May take the adaptive channel")
field("bool", "notify", "Target reports the delivery")
field("string", "route", "Still to travel")
field("string", "first_step", "First step")
field("string", "last_step", "Last step")
field("uint8", "region", "Region", base.DEC, names.region)
field("uint64", "offset", "Offset", base.HEX)
field("uint8", "tree", "TreeId")
field("uint8", "reduce", "ReduceId")
field("uint8", "reduce_op", "Operation", base.DEC, names.reduce_op)
field("uint8", "elem", "Element", base.DEC, names.elem)
field("bool", "all", "Result to every participant")
-- Data flits.
field("uint32", "read_length", "Bytes to read")
field("uint8", "back__region", "Region of the answer", base.DEC, names.region)
field("uint64", "back__offset", "Offset of the answer", base.HEX)
field("uint8", "atomic", "Atomic", base.DEC, names.atomic)
field("uint8", "width", "Bytes of the word")
field("uint64", "operand", "Operand", base.HEX)
field("uint64", "comparand", "Comparand", base.HEX)
field("bytes", "payload", "Payload")
-- The tail flit.
field("uint32", "crc", "CRC-32C", base.HEX)
field("bool", "crc_ok", "CRC-32C is right")
field("uint16", "tail__seq", "Link sequence number")
field("uint16", "tail__src", "Source node")
field("uint8", "first_byte", "First valid byte")
field("uint8", "last_byte", "Last valid byte")
field("uint32", "end_crc", "End-to-end CRC-32C", base.HEX)
field("uint32", "trace", "Trace id")
-- What belongs together.
field("framenum", "response_in", "Response in", base.NONE, frametype.RESPONSE)
field("framenum", "request_in", "Request in", base.NONE, frametype.REQUEST)
field("double", "response_time", "Response time (ns of network time)")
angara.fields = f

local bad_crc = ProtoExpert.new("angara.crc.bad", "Wrong checksum", expert.group.CHECKSUM, expert.severity.ERROR)
local dropped = ProtoExpert.new("angara.dropped", "Dropped", expert.group.SEQUENCE, expert.severity.WARN)
local replayed = ProtoExpert.new("angara.replayed", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE)
local unknown = ProtoExpert.new("angara.unknown", "Unknown layout", expert.group.UNDECODED, expert.severity.WARN)
angara.experts = { bad_crc, dropped, replayed, unknown }

-- `n` bits (at most 48) of `tvb` from bit `at` on, bit 0 being the lowest of the first byte.
local function bits(tvb, at, n)
  local first, shift = math.floor(at / 8), at % 8
  local value, weight, have = math.floor(tvb(first, 1):uint() / 2 ^ shift), 2 ^ (8 - shift), 8 - shift
  while have < n do
    first = first + 1
    local byte = tvb(first, 1):uint()
    if n - have < 8 then byte = byte % 2 ^ (n - have) end
    value, weight, have = value + byte * weight, weight * 256, have + 8
  end
  return value % 2 ^ n
end

-- A number below 2^53 as a field takes it.
local function wide(value)
  return UInt64(value % 2 ^ 32, math.floor(value / 2 ^ 32))
end

local xor, band, rshift
do
  local library = bit or bit32
  xor, band, rshift = library.bxor, library.band, library.rshift
end

local crc_table = {}
for byte = 0, 255 do
  local crc = byte
  for _ = 1, 8 do
    local low = crc % 2
    crc = rshift(crc, 1)
    if low == 1 then crc = xor(crc, 0x82f63b78) end
  end
  crc_table[byte] = crc
end

-- CRC-32C of a whole packet, whose own field counts as zero.
local function crc_of(packet)
  local bytes, size = packet:bytes(), packet:len()
  local field_at, crc = size - FLIT, 0xffffffff
  for i = 0, size - 1 do
    local byte = bytes:get_index(i)
    if i >= field_at and i < field_at + 4 then byte = 0 end
    crc = xor(crc_table[band(xor(crc, byte), 0xff)], rshift(crc, 8))
  end
  return xor(crc, 0xffffffff) % 2 ^ 32
end

local function coords(tvb, dims)
  local text = {}
  for i = 0, dims - 1 do text[#text + 1] = tostring(tvb(i, 1):uint()) end
  return table.concat(text, ",")
end

local function directions(mask)
  local text = {}
  for i = 0, 7 do
    if math.floor(mask / 2 ^ i) % 2 == 1 then text[#text + 1] = names.dir[i] end
  end
  return #text > 0 and table.concat(text, " ") or "none"
end

local function step(code)
  return code >= 8 and names.dir[code - 8] or "none"
end

-- Requests by requester and operation, and what each frame belongs to.
local requests, of_frame

function angara.init()
  requests, of_frame = {}, {}
end

local function key_of(p)
  local node, endpoint = p.src, p.src_endpoint
  if p.type == READ_RSP then node, endpoint = p.dst, p.dst_endpoint end
  return table.concat({ p.job, node, endpoint, tostring(p.op) }, "|")
end

-- Remembers a request that is answered, at its first frame.
local function note_request(pinfo, p, region, offset, length)
  if pinfo.visited or p.corrupted then return end
  local list = requests[key_of(p)] or {}
  requests[key_of(p)] = list
  for _, known in ipairs(list) do
    if known.offset == offset and known.region == region then
      of_frame[pinfo.number] = known
      return
    end
  end
  local request = { frame = pinfo.number, time = p.time, region = region, offset = offset, length = length }
  list[#list + 1] = request
  of_frame[pinfo.number] = request
end

-- Finds the request that a response answers.
local function note_response(pinfo, p, region, offset)
  if pinfo.visited or p.corrupted then return end
  for _, known in ipairs(requests[key_of(p)] or {}) do
    if known.region == region and offset >= known.offset and offset < known.offset + known.length then
      known.response, known.response_time = pinfo.number, p.time
      of_frame[pinfo.number] = known
      return
    end
  end
end

local function show_partner(tree, pinfo, p)
  local request = of_frame[pinfo.number]
  if not request then return end
  if p.type ~= READ_RSP then
    if request.response then tree:add(f.response_in, request.response):set_generated() end
    return
  end
  tree:add(f.request_in, request.frame):set_generated()
  local took = (p.time - request.time):tonumber() / 1000
  tree:add(f.response_time, took):set_generated()
end

local function pseudo(tvb, tree, p)
  local t = tree:add(angara, tvb(0, HEAD.length), "Capture")
  p.event, p.reason = tvb(2, 1):uint(), tvb(3, 1):uint()
  p.time, p.dir, p.vc = tvb(8, 8):le_uint64(), tvb(24, 1):uint(), tvb(25, 1):uint()
  p.flags, p.job = tvb(27, 1):uint(), tvb(28, 4):le_uint()
  p.length, p.bytes, p.seq = tvb(4, 4):le_uint(), tvb(44, 2):le_uint(), tvb(46, 2):le_uint()
  p.op, p.corrupted, p.train = tvb(48, 8):le_uint64(), p.event == 3, p.flags % 2 == 1
  p.dims = math.max(1, math.min(4, math.floor(p.flags / 16)))
  p.at, p.src = coords(tvb(20, 4), p.dims), coords(tvb(36, 4), p.dims)
  p.src_endpoint, p.dst_endpoint = tvb(40, 2):le_uint(), tvb(42, 2):le_uint()
  p.link = p.dir == HOST and p.at .. " host" or p.at .. (names.dir[p.dir] or "?")
  t:add(f.pseudo__version, tvb(0, 1))
  t:add(f.pseudo__length, tvb(1, 1))
  local event = t:add(f.event, tvb(2, 1))
  if p.event == 4 then
    t:add(f.reason, tvb(3, 1))
    event:add_proto_expert_info(dropped, "Dropped: " .. (names.reason[p.reason] or "?"))
  elseif p.event == 2 then
    event:add_proto_expert_info(replayed)
  end
  t:add_le(f.length, tvb(4, 4))
  t:add_le(f.time, tvb(8, 8))
  t:add_le(f.node, tvb(16, 4))
  t:add(f.coords, tvb(20, 4), p.at)
  t:add(f.dir, tvb(24, 1))
  t:add(f.link, tvb(16, 9), p.link)
  t:add(f.vc, tvb(25, 1))
  t:add(f.class, tvb(26, 1))
  t:add(f.train, tvb(27, 1))
  t:add(f.foreign, tvb(27, 1))
  t:add(f.dims, tvb(27, 1))
  if p.job ~= NO_JOB then t:add_le(f.job, tvb(28, 4)) end
  t:add_le(f.src__node, tvb(32, 4))
  t:add(f.src, tvb(36, 4), p.src)
  t:add_le(f.src__endpoint, tvb(40, 2))
  t:add_le(f.dst__endpoint, tvb(42, 2))
  t:add_le(f.bytes, tvb(44, 2))
  t:add_le(f.seq, tvb(46, 2))
  t:add_le(f.op, tvb(48, 8))
  t:add_le(f.packet, tvb(56, 8))
end

local function header(tvb, tree, p)
  local t = tree:add(angara, tvb, "Header flit")
  p.type, p.data_flits = bits(tvb, 0, 4), bits(tvb, 4, 5)
  p.dst = coords(tvb(4, 4), p.dims)
  t:add(f.type, tvb(0, 1), p.type)
  t:add(f.data_flits, tvb(0, 2), p.data_flits)
  t:add(f.header_vc, tvb(1, 1), bits(tvb, 9, 3))
  t:add(f.adaptive, tvb(1, 1), bits(tvb, 12, 1) == 1)
  t:add(f.notify, tvb(1, 1), bits(tvb, 13, 1) == 1)
  -- A packet gets its route when it leaves its adapter.
  if p.event ~= 0 then t:add(f.route, tvb(2, 1), directions(bits(tvb, 16, 8))) end
  t:add(f.first_step, tvb(3, 1), step(bits(tvb, 24, 4)))
  t:add(f.last_step, tvb(3, 1), step(bits(tvb, 28, 4)))
  t:add(f.dst, tvb(4, 4), p.dst)
  if p.type >= 6 and p.type <= 9 then
    t:add(f.tree, tvb(8, 1), bits(tvb, 64, 4))
    t:add(f.reduce, tvb(8, 1), bits(tvb, 68, 4))
    t:add(f.reduce_op, tvb(9, 1), bits(tvb, 72, 3))
    t:add(f.elem, tvb(9, 1), bits(tvb, 75, 2))
    t:add(f.all, tvb(9, 1), bits(tvb, 77, 1) == 1)
  else
    p.region = bits(tvb, 74, 6)
    t:add(f.region, tvb(9, 1), p.region)
  end
  p.offset = bits(tvb, 80, 48)
  t:add_le(f.offset, tvb(10, 6))
end

-- Where an answer goes: from bit 42 of a request's first data flit.
local function answer_place(t, tvb, p, length, pinfo)
  local region, offset = bits(tvb, 42, 6) % 32, bits(tvb, 58, 48)
  t:add(f.back__region, tvb(5, 1), region)
  t:add(f.back__offset, tvb(7, 7), wide(offset))
  note_request(pinfo, p, region, offset, length)
end

local function data(tvb, tree, p, pinfo)
  local t = tree:add(angara, tvb, "Data")
  if p.type == READ_REQ and tvb:len() >= FLIT then
    local length = bits(tvb, 106, 16)
    t:add(f.read_length, tvb(13, 3), length)
    answer_place(t, tvb, p, length, pinfo)
  elseif p.type == SERVICE and tvb:len() >= 2 * FLIT then
    local width = bits(tvb, 112, 8)
    t:add(f.atomic, tvb(13, 1), bits(tvb, 106, 6))
    t:add(f.width, tvb(14, 1), width)
    if bits(tvb, 47, 1) == 1 then answer_place(t, tvb, p, width, pinfo) end
    t:add_le(f.operand, tvb(16, 8))
    t:add_le(f.comparand, tvb(24, 8))
  elseif (p.type == 4 or p.type == 5) and tvb:len() >= FLIT then
    t:add(f.atomic, tvb(0, 0), p.type - 4):set_generated()
    t:add_le(f.operand, tvb(0, 8))
    t:add(f.width, tvb(8, 1))
  elseif p.type ~= BARRIER and p.bytes > 0 then
    t:add(f.payload, tvb(0, math.min(p.bytes, tvb:len())))
  end
end

local function tail(tvb, packet, tree, p)
  local t = tree:add(angara, tvb, "Tail flit")
  local crc = t:add_le(f.crc, tvb(0, 4))
  if angara.prefs.check_crc then
    local expected = crc_of(packet)
    p.crc_bad = expected ~= tvb(0, 4):le_uint()
    t:add(f.crc_ok, tvb(0, 4), not p.crc_bad):set_generated()
    if p.crc_bad then
      crc:add_proto_expert_info(bad_crc, string.format("Wrong checksum: it should be 0x%08x", expected))
    end
  end
  t:add_le(f.tail__seq, tvb(4, 2))
  t:add_le(f.tail__src, tvb(6, 2))
  t:add(f.first_byte, tvb(8, 1), bits(tvb, 64, 4))
  t:add(f.last_byte, tvb(8, 1), bits(tvb, 68, 4))
  t:add_le(f.end_crc, tvb(9, 4))
  t:add_le(f.trace, tvb(13, 3))
end

local function columns(pinfo, p)
  pinfo.cols.protocol = "Angara"
  pinfo.cols.src = p.src .. ":" .. p.src_endpoint
  pinfo.cols.dst = p.dst .. ":" .. p.dst_endpoint
  local info = string.format("%s %s, %s %s", names.event[p.event] or "?", p.link, names.vc[p.vc] or "?",
    names.type[p.type] or "?")
  if p.dir ~= HOST then info = info .. " #" .. p.seq end
  if p.bytes > 0 then info = info .. ", " .. p.bytes .. " bytes" end
  if p.region and p.type ~= BARRIER then
    info = info .. string.format(" at %s+0x%x", names.region[p.region] or "?", p.offset)
  end
  if p.event == 4 then info = info .. ": " .. (names.reason[p.reason] or "?") end
  if p.crc_bad then info = info .. " [wrong checksum]" end
  pinfo.cols.info = info
end

function angara.dissector(tvb, pinfo, root)
  local tree = root:add(angara, tvb(), "Angara")
  if tvb:len() < HEAD.length or tvb(0, 1):uint() ~= HEAD.version or tvb(1, 1):uint() < HEAD.length then
    pinfo.cols.protocol = "Angara"
    tree:add_proto_expert_info(unknown, "No pseudo-header of version " .. HEAD.version)
    return tvb:len()
  end
  local p = { dst = "?", type = -1 }
  pseudo(tvb, tree, p)
  local start = tvb(1, 1):uint()
  local kept = tvb:len() - start
  if kept >= FLIT then
    header(tvb(start, FLIT), tree, p)
    -- A simulation's packet may be a single flit.
    local whole = kept == p.length and kept > FLIT and not p.train
    local rest = kept - FLIT - (whole and FLIT or 0)
    if rest > 0 then data(tvb(start + FLIT, rest), tree, p, pinfo) end
    if p.type == READ_RSP then note_response(pinfo, p, p.region, p.offset) end
    if whole then tail(tvb(start + kept - FLIT, FLIT), tvb(start, kept), tree, p) end
    show_partner(tree, pinfo, p)
  end
  columns(pinfo, p)
  tree:append_text(string.format(", %s on %s, %s to %s", names.type[p.type] or "?", p.link, p.src, p.dst))
  return tvb:len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, angara)
