"""The steps of a fleet's protocol that Redis runs as one: Lua scripts.

The keys of a fleet are in one hash slot of a cluster:

- ``state``: a hash with the latest ``epoch``, its ``owner``, the time ``until`` which the owner is thought to be alive,
  the ``count`` of reports, which shows whether Redis has lost data, ``unsure`` if it has and the members' leases from
  before may still hold, and ``m:MEMBER`` for each member that may have a grant; all in one key, so that Redis loses
  nothing or everything if it evicts keys
- ``reports``: a list of messages to the allocator
- ``to:MEMBER``: a list with the latest grant of one member

A standing grant (see `fleet.standing_grant`) is in ``state``, too, as JSON: the epoch, the list and the text of the
grant, how long to keep it, the message to the allocator, and the holdings of the givers. The field ``round`` says which
grants were stored last, or that the standing one of these has come into force. So the allocator's next ones are refused
until it knows that. ``stood`` is the count of reports when it was stored. A Redis that has gone back in time may have a
standing grant that was replaced, so it is only for members that have been connected to this Redis since before it was
stored. The list of the grant is not among the KEYS; its slot is that of all keys.

Time is that of Redis, in milliseconds. It only decides when another member may begin an epoch. Whatever the clock
does, no seats depend on it: an allocator's grants are stored only as long as its epoch is the latest one.
"""

from typing import Final

__all__ = ["CLAIM", "GRANT", "LEAVE", "OUTDATED", "RESIGN", "SEND", "TAKEN"]

OUTDATED: Final = "OUTDATED"
"""The first word of the error that answers the grants of an earlier epoch."""

TAKEN: Final = "taken"
"""The round in which the standing grant has come into force."""

_NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# The time of an owner can't be later than now + patience, unless the clock has been set back. What isn't a number, or
# is too large to be exact, is not ours.
_STATE: Final = (
    _NOW
    + """
local kept = redis.call('HMGET', KEYS[1], 'epoch', 'until', 'owner', 'count')
local function number(value)
  local found = tonumber(value or 0) or 0
  return found >= 0 and found < 2^52 and found or 0
end
local epoch, ends, count = number(kept[1]), number(kept[2]), number(kept[4])
local function is_alive(patience) return ends > now and ends <= now + patience end
"""
)

# Register a member, and append its report, if that is for an allocator that lives; if the report says that a seat has
# been given back, let the standing grant come into force. KEYS: state, reports. ARGV: member, report, its epoch,
# patience, the most reports, how long to keep keys, the terms that the member obeys, the seats that it holds, the
# first count that Redis has answered to this connection. Returns the epoch, whether its allocator is alive, its owner,
# and the count.
SEND: Final = (
    _STATE
    + f"""
local function pass_on()
  local stored = redis.call('HMGET', KEYS[1], 'standing', 'stood')
  local text = stored[1]
  if not text or text == '' or tonumber(ARGV[9]) > number(stored[2]) then return end
  local begun_in, inbox, grant, kept_for, told, givers = unpack(cjson.decode(text))
  local giver = givers[ARGV[1]]
  if begun_in ~= epoch or not giver or giver[1] ~= ARGV[7] or tonumber(ARGV[8]) > giver[2] then return end
  redis.call('HSET', KEYS[1], 'standing', '', 'round', '{TAKEN}')
  redis.call('DEL', inbox)
  redis.call('RPUSH', inbox, grant)
  redis.call('PEXPIRE', inbox, kept_for)
  redis.call('RPUSH', KEYS[2], told)
end
redis.call('HSET', KEYS[1], 'm:' .. ARGV[1], '')
count = count + 1
redis.call('HSET', KEYS[1], 'count', string.format('%d', count))
redis.call('PEXPIRE', KEYS[1], ARGV[6])
local alive = is_alive(tonumber(ARGV[4]))
if alive and epoch == tonumber(ARGV[3]) then
  redis.call('RPUSH', KEYS[2], ARGV[2])
  pass_on()
  redis.call('LTRIM', KEYS[2], -ARGV[5], -1)
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
return {{epoch, alive and 1 or 0, kept[3] or '', count}}
"""
)

# Begin an epoch, unless the allocator of the latest one is alive and isn't the caller. KEYS: state, reports. ARGV:
# member, the latest epoch and count that it knows, patience, the first count that Redis has answered to this
# connection, or 0 if earlier leases have ended. Returns the latest epoch, whether the caller has begun it, whether
# Redis has lost nothing, and the members. After a failover Redis may lack members that have grants, and others' reports
# may have raised the count again. But then all connections are newer than the last grants that Redis has.
CLAIM: Final = (
    _STATE
    + """
local known = tonumber(ARGV[2])
if epoch >= known and is_alive(tonumber(ARGV[4])) and kept[3] ~= ARGV[1] then return {epoch, 0, 0, {}} end
local is_sure = redis.call('HEXISTS', KEYS[1], 'unsure') == 0
local stood = number(redis.call('HMGET', KEYS[1], 'stood')[1])
local is_complete = count >= tonumber(ARGV[3]) and stood >= tonumber(ARGV[5])
local intact = is_sure and epoch > 0 and epoch >= known and is_complete
if not intact then redis.call('HSET', KEYS[1], 'unsure', 1) end
epoch = math.max(epoch, known) + 1
redis.call('HSET', KEYS[1], 'epoch', epoch, 'owner', ARGV[1], 'until', now + ARGV[4], 'count', count + 1)
redis.call('HSET', KEYS[1], 'standing', '', 'round', '')
redis.call('DEL', KEYS[2])
local members = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if field:sub(1, 2) == 'm:' then members[#members + 1] = field:sub(3) end
end
return {epoch, 1, intact and 1 or 0, members}
"""
)

# Store grants, if the epoch is the latest one, and forget members whose leases have ended, if no reports wait.
# KEYS: state, reports, and a list for each grant. ARGV: epoch, owner, patience, how long to keep a grant, whether all
# members that may have grants are known now, the round that the allocator knows, that which begins now, the standing
# grant, the number of members to forget, these members, the grants. Returns 1, and stores nothing, if the former
# standing grant has come into force. The answer is an error if the epoch isn't the latest one, or if the round is any
# other one, for Redis has lost the last grants; so the connection is closed at once.
GRANT: Final = (
    _NOW
    + f"""
local kept = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'round', 'count')
if kept[1] ~= ARGV[1] or kept[2] ~= ARGV[2] then
  return redis.error_reply('{OUTDATED} a later epoch has begun')
end
if (kept[3] or '') ~= ARGV[6] then
  return kept[3] == '{TAKEN}' and 1 or redis.error_reply('{OUTDATED} this Redis has other grants')
end
redis.call('HSET', KEYS[1], 'until', now + ARGV[3], 'round', ARGV[7], 'standing', ARGV[8], 'stood', kept[4] or '')
if ARGV[5] == '1' then redis.call('HDEL', KEYS[1], 'unsure') end
local forgotten = tonumber(ARGV[9])
if redis.call('LLEN', KEYS[2]) == 0 then
  for i = 10, 9 + forgotten do redis.call('HDEL', KEYS[1], 'm:' .. ARGV[i]) end
end
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('RPUSH', KEYS[i], ARGV[forgotten + 7 + i])
  redis.call('PEXPIRE', KEYS[i], ARGV[4])
end
return 0
"""
)

# Forget a member that has ended, and tell the allocator. KEYS: state, reports, its grants. ARGV: member, message, how
# long to keep keys.
LEAVE: Final = """
redis.call('HDEL', KEYS[1], 'm:' .. ARGV[1])
redis.call('DEL', KEYS[3])
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
"""

# Let another member begin an epoch at once. KEYS: state. ARGV: epoch, owner.
RESIGN: Final = """
local kept = redis.call('HMGET', KEYS[1], 'epoch', 'owner')
if kept[1] == ARGV[1] and kept[2] == ARGV[2] then redis.call('HSET', KEYS[1], 'until', 0) end
"""
