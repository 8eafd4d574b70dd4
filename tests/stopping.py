"""Stopping an action before any line that it runs, or before any change of a file."""

import os
import sys

CHANGES = (
    *("mkdir", "rmdir", "rename", "replace", "symlink", "link", "unlink", "chmod"),
    *("open", "write", "close", "flock"),
)


def raise_interrupt():
    raise KeyboardInterrupt


def stop_at(line, action, *, files, stop=raise_interrupt):
    """Run an action, and call `stop` before the given line that it runs in files of these prefixes.

    Returns the function and the line number in its file, None if the action ends before.
    """
    left, place = line, None

    def trace(frame, event, argument):
        nonlocal left, place
        if not frame.f_code.co_filename.startswith(files):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                place = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                stop()
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(previous)
    return place


def signal_before_change(number, signal_number):
    """Send this process a signal before the given call of a function that changes files.

    Returns a function that returns the number of such calls so far.
    """
    calls = 0

    def count(frame, event, function):
        nonlocal calls
        if event == "c_call" and function.__name__ in CHANGES:
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal_number)

    sys.setprofile(count)
    return lambda: calls
