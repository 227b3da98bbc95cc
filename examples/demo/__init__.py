"""An elephant and some mice in front of a real server, with and without protection: ``python -m examples.demo``.

A Starlette app uses a backend that serves ten requests at once, in 20 ms each; with more requests it becomes slower for
all. Ten mice send ten requests a second each, a fifth of what the backend can serve. Then an elephant arrives with 200
connections that never pause. All clients give up on a response after a second.

The same load is sent twice over real sockets: to the app alone, and to the app behind `APFMiddleware`. Each runs in a
uvicorn process of its own. The terminal shows the measurements, and at the end the commands to try it by hand.

============  ============================================================================
`app`         the app, with and without protection, configured by ``apf.yaml`` and ``keys.csv``
`servers`     uvicorn as a process that ends with the demonstration
`load`        the elephant and the mice
`figures`     figures of the results
`report`      the report of both runs
`live`        the protected server and its console, until Ctrl-C
`show`        the command
============  ============================================================================
"""
