"""One budget of seats for many processes: members report their demand, and an allocator grants seats to them.

A *member* is one process. It governs its own requests with the seats of its *grant*, so no request waits for a message
unless the member has no free seat. At each exchange the member reports, for each level, the seats in use and what its
flows want (`messages`). The *allocator*, which is one of the members or beside them, computes the fair share of each
flow in the whole fleet, and from these the seats of each member (`shares`, `rotation`).

The sum of all grants never exceeds the budget (`member_account`): an increase is granted only from seats that another
member has reported as given back, and a member lowers its own limit before it reports that (`membership`). Grants are
leases. Each side measures them on its own clock, so only durations matter.

Everything here is pure: no I/O and no clock. `runtime.fleet` exchanges the messages.
"""

__all__: list[str] = []
