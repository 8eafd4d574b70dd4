"""Stopping an action before any line that it runs, or before any change of a file."""

import os
import sys

CHANGES = (
    *("mkdir", "rmdir", "rename", "replace", "symlink", "link", "unlink", "chmod"),
    *("open", "write", "close", "flock"),
)

# Python calls the trace function before each repetition of a loop within one line, such as a
# comprehension. Since 3.12, `finally` and `except` do not run if the trace function raises there;
# they do run if the handler of a signal raises there.
LOSES_EXCEPTIONS = sys.version_info >= (3, 12)


def raise_interrupt():
    raise KeyboardInterrupt


def stop_at(line, action, *, files, stop=raise_interrupt):
    """Run an action, and call `stop` before the given line that it runs in files of these prefixes.

    Returns the function and the line number in its file, None if the action ends before.
    """
    left, place = line, None

    def trace(frame, event, argument):
        return count_lines() if frame.f_code.co_filename.startswith(files) else None

    def count_lines():
        """Return a function that traces one call."""
        last = None

        def count(frame, event, argument):
            nonlocal left, place, last
            if event == "line":
                is_loop_in_line, last = frame.f_lineno == last, frame.f_lineno
                if not (is_loop_in_line and LOSES_EXCEPTIONS):
                    left -= 1
                    if left == 0:
                        place = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                        stop()
            return count

        return count

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
