"""Lua scripts that Redis runs in one step for gates that several servers share.

Time is always that of Redis, in microseconds; the clocks of the app's servers don't matter. If the clock of Redis goes
back, or a Redis server with an earlier clock takes over, no gate is shut for longer than it could have been. Numbers
are stored with all digits, because Lua would round them to fourteen.
"""

from typing import Final

__all__ = [
    "ACQUIRE_PLACES",
    "RELEASE_PLACES",
    "TAKE_QUOTA",
    "TAKE_TOKENS",
    "UNDO_QUOTA",
    "UNDO_TOKENS",
    "WITHDRAW_PLACES",
]

_NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
"""

# The time when the bucket will be full. ARGV: microseconds per token, burst, cost. Returns the time to wait.
TAKE_TOKENS: Final = (
    _NOW
    + """
local per, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now))
full = math.min(full, now + burst * per)
local opens = full + (cost - burst) * per
if opens > now then return math.ceil(opens - now) end
full = full + cost * per
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000) + 1)
return 0
"""
)

# ARGV: microseconds per token, cost.
UNDO_TOKENS: Final = """
local full = tonumber(redis.call('GET', KEYS[1]))
if full then redis.call('SET', KEYS[1], string.format('%.0f', full - ARGV[1] * ARGV[2]), 'KEEPTTL') end
"""

# A hash: the cost used in a window, and the end of the window. ARGV: limit, microseconds of a window, cost. Returns the
# time to wait, and the name of the window.
TAKE_QUOTA: Final = (
    _NOW
    + """
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local kept = redis.call('HMGET', KEYS[1], 'used', 'ends')
local used, ends = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
if ends <= now or ends > now + window then used, ends = 0, now + window end
if used + cost > limit then return {math.ceil(ends - now), ''} end
local name = string.format('%.0f', ends)
redis.call('HSET', KEYS[1], 'used', used + cost, 'ends', name)
redis.call('PEXPIRE', KEYS[1], math.ceil((ends - now) / 1000) + 1)
return {0, name}
"""
)

# ARGV: the window, cost.
UNDO_QUOTA: Final = """
if redis.call('HGET', KEYS[1], 'ends') == ARGV[1] then redis.call('HINCRBY', KEYS[1], 'used', -ARGV[2]) end
"""

# A sorted set. The score of a place is the time at which the place comes free even if it isn't given back. A place may
# be withdrawn before the question for it arrives; its score is then minus the time until which the withdrawal is
# remembered. The key lives at least as long as its members, even if servers disagree about how long that is.
_KEEP: Final = """
local function keep(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
end
"""

# ARGV: limit, microseconds that a place may be held, and the names of the places that are wanted. Returns whether they
# are taken.
ACQUIRE_PLACES: Final = (
    _NOW
    + _KEEP
    + """
local limit, hold = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('%.0f', -now), string.format('%.0f', now))
if redis.call('ZSCORE', KEYS[1], ARGV[3]) then return 0 end
if redis.call('ZCOUNT', KEYS[1], '(0', '+inf') + #ARGV - 2 > limit then return 0 end
local ends = string.format('%.0f', now + hold)
for i = 3, #ARGV do redis.call('ZADD', KEYS[1], ends, ARGV[i]) end
keep(KEYS[1], math.ceil(hold / 1000) + 1)
return 1
"""
)

# ARGV: the names of the places. One command can't have all of them, because Lua unpacks no more than 8000.
RELEASE_PLACES: Final = "for i = 1, #ARGV do redis.call('ZREM', KEYS[1], ARGV[i]) end"

# After the answer to a question was lost: whether Redis gets the question before this script or later, nothing stays
# taken. ARGV: microseconds that a place may be held, and the names of the places.
WITHDRAW_PLACES: Final = (
    _NOW
    + _KEEP
    + """
local hold = tonumber(ARGV[1])
local known = 0
for i = 2, #ARGV do known = known + redis.call('ZREM', KEYS[1], ARGV[i]) end
if known > 0 then return known end
redis.call('ZADD', KEYS[1], string.format('%.0f', -(now + hold)), ARGV[2])
keep(KEYS[1], math.ceil(hold / 1000) + 1)
return 0
"""
)
