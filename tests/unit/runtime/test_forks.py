"""What a forked child closes."""

import os
import signal
import socket

from apf_middleware.runtime.forks import close_in_children


def test_a_child_closes_what_it_must_not_keep_and_nothing_else() -> None:
    closed, kept, other = socket.socket(), socket.socket(), socket.socket()
    with closed, kept:
        close_in_children(closed)
        close_in_children(other)
        other.close()
        descriptors = closed.fileno(), kept.fileno()
        child = os.fork()
        if not child:
            try:
                os._exit(10 * is_open(descriptors[0]) + is_open(descriptors[1]))
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert [closed.fileno(), kept.fileno()] == [*descriptors], "they are open here"


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
