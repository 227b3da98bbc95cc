"""An elephant and some mice in front of one backend, with and without fairness: ``python -m examples.elephant``.

A backend has 10 seats and takes about 20 ms for a request. An elephant has 200 connections and never pauses: each sends
the next request as soon as it has a response. Five mice send a request every 100 ms or so. Together they need one of
the ten seats, but in a single queue they wait behind the elephant.

The same load is played twice. *Without fairness* all requests wait in one queue, as with ``asyncio.Semaphore(10)``.
*With apf_middleware* there are 64 queues that are served in turn, and a hand of 6 for each flow. Seats and algorithm
are the same, the library's own `QueueSet`; only the number of queues differs. Time is virtual. In a terminal it runs
at the speed of real time; elsewhere, and with ``--fast``, as fast as possible.

==============  ======================================================================
`simulation`    the clients, and the backend that serves them
`figures`       figures of a run
`picture`       a picture of both backends at one instant
`report`        both runs side by side: latencies, a table, a summary
`show`          the command: runs both, paces them in a terminal, reports
==============  ======================================================================
"""
