"""An elephant and some mice before a real server, with and without protection: ``python -m examples.demo``.

A Starlette app asks a backend with ten places for 20 ms; the more ask beyond that, the slower it gets for all. Ten mice
want ten answers a second each, a fifth of what the backend can do. Then an elephant comes with 200 connections that
never rest, and everybody gives up on an answer after a second.

The same load comes twice over real sockets, first to the app alone, then to the app behind `APFMiddleware`. Both are
uvicorn processes of their own. What is measured is shown in the terminal, and ends with how to try it by hand.

============  ===========================================================================
`app`         the app, with and without protection; ``apf.yaml`` and ``keys.csv`` are its
`servers`     uvicorn as a process that ends with the demonstration
`load`        the elephant and the mice
`figures`     what became of their requests, in numbers
`report`      the picture of both runs
`show`        the command
============  ===========================================================================
"""
