"""Objects held by what has not ended or may be called, by contexts and threads (``holding``)."""

import asyncio
import contextlib
import contextvars
import functools
import threading
import weakref

from holding import Thing, aside, case, run

kept = None
callbacks = []
running = []
variable = contextvars.ContextVar("variable")
local = threading.local()


def keep(value):
    global kept
    kept = value


def nothing():
    keep(None)


@case
def generator():
    def make():
        thing = Thing()
        yield thing

    running.append(make())
    next(running[0])
    return lambda: running.clear()


@case
def generator_in_generator():
    def inner():
        things = [Thing()]
        yield len(things)

    def outer():
        yield from inner()

    running.append(outer())
    next(running[0])
    return lambda: running.clear()


class Pause:
    def __await__(self):
        yield


@case
def coroutine():
    async def make():
        thing = Thing()
        await Pause()
        del thing

    running.append(make())
    running[0].send(None)

    def release():
        running[0].close()
        running.clear()

    return release


@case
def asynchronous_generator():
    async def make():
        thing = Thing()
        yield 1
        del thing

    running.append(make())
    with contextlib.suppress(StopIteration):
        running[0].__anext__().send(None)

    def release():
        with contextlib.suppress(StopIteration):
            running[0].aclose().send(None)
        running.clear()

    return release


@case
def task():
    """A task that sleeps, held by its loop alone."""

    def work(wait):
        async def sleeper(ready):
            thing = Thing()
            ready.set()
            await asyncio.sleep(600)
            del thing

        async def main():
            ready = asyncio.Event()
            weak.append(weakref.ref(asyncio.ensure_future(sleeper(ready))))
            await ready.wait()
            wait()
            weak[0]().cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await weak[0]()

        weak = []
        asyncio.run(main())

    return aside(work)


@case
def closure():
    thing = Thing()
    callbacks.append(lambda: thing)
    return lambda: callbacks.clear()


@case
def default_argument():
    def callback(thing=[Thing()]):  # noqa: B006, B008
        pass

    callbacks.append(callback)
    return lambda: callbacks.clear()


@case
def bound_method():
    class Called(Thing):
        def call(self):
            pass

    callbacks.append(Called().call)
    return lambda: callbacks.clear()


@case
def partial():
    callbacks.append(functools.partial(print, Thing()))
    return lambda: callbacks.clear()


@case
def context_variable():
    token = variable.set(Thing())

    def release():
        variable.reset(token)

    return release


@case
def context_of_a_thread():
    def work(wait):
        variable.set(Thing())
        wait()

    return aside(work)


@case
def kept_context():
    context = contextvars.Context()
    context.run(lambda: variable.set([Thing()]) and None)
    keep(context)
    return nothing


@case
def many_context_variables():
    """So many that the tree has more than one level."""
    context = contextvars.Context()
    for i in range(40):
        context.run(contextvars.ContextVar(f"v{i}").set, Thing() if i == 33 else i)
    keep(context)
    return nothing


@case
def context_default():
    keep(contextvars.ContextVar("defaulted", default=Thing()))  # noqa: B039
    return nothing


@case
def thread_local():
    local.thing = Thing()

    def release():
        del local.thing

    return release


@case
def thread_local_of_a_thread():
    class Local(threading.local):
        pass

    keep(Local())

    def work(wait):
        kept.thing = [Thing()]
        wait()

    end = aside(work)

    def release():
        end()
        nothing()

    return release


@case
def only_a_cycle():
    thing = Thing()
    thing.me = [thing]
    return int  # the collector lets go of it


run()
