"""`Team`: threads that share the work of one evaluation."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from weft.data.threads import count_threads, use_one_thread

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Item = TypeVar("Item")


class _Closed(BaseException):
    """Ends the work of helpers when a team is closed early."""


class _Loop:
    """The calls of a function with each of some items, by any thread that is free."""

    def __init__(self, function: Callable[[Any], object], items: Sequence[Any]) -> None:
        self._function, self._items = function, iter(items)
        self.is_exhausted = False
        self.num_running = 0
        self.error: BaseException | None = None

    def step(self, condition: threading.Condition) -> None:
        """Make the next call, if there is one."""
        with condition:
            try:
                item = next(self._items)
            except StopIteration:
                self.is_exhausted = True
                return
            self.num_running += 1
        try:
            self._function(item)
        except BaseException as error:  # raised by `Team.loop`
            self.error, self.is_exhausted = error, True
            if threading.current_thread() is threading.main_thread():
                raise  # an interrupt ends the work at once
        finally:
            with condition:
                self.num_running -= 1
                if self.num_running == 0:
                    condition.notify_all()


class Team:
    """The calling thread and `size - 1` helpers, which start at the first use and end with the
    context.

    Python and small operations are for the calling thread: several threads would wait for the
    interpreter more than they would work. Helpers do what takes long without it: `loop` shares
    native calls among all threads, and `submit` starts a task with such loops ahead of time. If the
    context ends with an error, helpers stop after their present call."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._condition = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._loops: deque[_Loop] = deque()
        self._helpers: list[threading.Thread] = []
        self._is_open = True

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._is_open = False
            self._condition.notify_all()
        for helper in self._helpers:
            helper.join()

    def submit(
        self,
        function: Callable[Parameters, Value],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Value]:
        """Start a call in a helper, for `result`; without helpers, call at once."""
        future: Future[Value] = Future()
        context = copy_context()

        def run() -> None:
            try:
                future.set_result(context.run(function, *args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        if self.size == 1:
            run()
        else:
            self._offer(self._tasks, run)
        return future

    def result(self, future: Future[Value]) -> Value:
        """Return the result of `submit`; until it is available, take part in loops."""
        future.add_done_callback(self._notify)
        while not future.done():
            self._work(until=future)
        return future.result()

    def loop(self, function: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Call a function with each item, in any thread and order. Raises an error of a call."""
        if self.size == 1 or len(items) < 2:
            for item in items:
                function(item)
            return
        loop = _Loop(function, items)
        self._offer(self._loops, loop)
        try:
            while not loop.is_exhausted and self._is_open:
                loop.step(self._condition)
        finally:
            loop.is_exhausted = True
            with self._condition:
                self._loops.remove(loop)
                self._condition.wait_for(lambda: loop.num_running == 0 or not self._is_open)
        if loop.error is not None:
            raise loop.error
        if not self._is_open:
            raise _Closed

    # ----------------------------------------------------------------------------------------------

    def _offer(self, queue: deque[Any], work: Any) -> None:
        with self._condition:
            queue.append(work)
            self._condition.notify_all()
        while len(self._helpers) < self.size - 1:
            helper = threading.Thread(target=self._help, name="weft", daemon=True)
            self._helpers.append(helper)
            helper.start()

    def _notify(self, _: object) -> None:
        with self._condition:
            self._condition.notify_all()

    def _help(self) -> None:
        use_one_thread()
        _state.team = self
        while self._is_open:
            self._work()

    def _work(self, until: Future[Any] | None = None) -> None:
        """Wait for work and do some of it. With `until`, return when it is done; tasks are not for
        the calling thread.
        """
        work = None
        with self._condition:
            while self._is_open and not (until is not None and until.done()):
                work = self._take_work(with_tasks=until is None)
                if work is not None:
                    break
                self._condition.wait()
        if work is not None:
            work()

    def _take_work(self, *, with_tasks: bool) -> Callable[[], None] | None:
        """Return a step of a loop, or else a task; None if there is neither."""
        for loop in self._loops:
            if not loop.is_exhausted:
                return partial(loop.step, self._condition)
        return self._tasks.popleft() if with_tasks and self._tasks else None


class _ThreadState(threading.local):
    team: Team | None = None


_state = _ThreadState()


@contextmanager
def open_team(size: int) -> Iterator[Team]:
    """Open a team, which `share_loop` uses in its threads."""
    before = _state.team
    with Team(size) as team:
        try:
            _state.team = team
            yield team
        finally:
            _state.team = before


def num_sharing() -> int:
    """Return the number of threads that `share_loop` uses at most."""
    return count_threads() if _state.team is None else _state.team.size


def share_loop(function: Callable[[Item], object], items: Sequence[Item]) -> None:
    """Call a function with each item, on the threads of the present team, or of a new one."""
    if _state.team is not None:
        _state.team.loop(function, items)
        return
    with Team(min(count_threads(), max(1, len(items)))) as team:
        team.loop(function, items)
