"""An elephant and some mice before one backend, with and without fairness: ``python -m examples.elephant``.

A backend has 10 seats and takes about 20 ms for a request. An elephant holds 200 connections open and never pauses:
the moment one of them is answered, it asks again. Five mice ask for something every 100 ms or so; between them they
need one seat of the ten, but wherever they queue the elephant is there already.

The same load comes twice. *Without fairness* all wait in one queue, which is what ``asyncio.Semaphore(10)`` does.
*With apf_middleware* there are 64 queues, a hand of 6 for each flow, and the queues take turns. The seats are the
same and so is the algorithm, the library's own `QueueSet`; only the number of queues differs. Time is virtual. In a
terminal it passes as fast as real time, to be watched; anywhere else, and with ``--fast``, as fast as it can.

==============  ======================================================================
`simulation`    who asks when, and the backend that answers
`figures`       what the requests' latencies come to
`picture`       both backends at one instant, drawn
`report`        both runs side by side: latencies, a table, and what they say
`show`          the command: runs both, paces them in a terminal, reports
==============  ======================================================================
"""
