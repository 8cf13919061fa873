"""Objects held by modules, containers, caches, errors and functions that run (``holding``)."""

import functools
import sys

from holding import Thing, aside, case, run

kept = None
cache = {}
errors = []


def keep(value):
    global kept
    kept = value


def nothing():
    keep(None)


class Holder:
    pass


@case
def module_global():
    keep(Thing())
    return nothing


@case
def container():
    cache["far", 1] = {"inner": [0, Thing()]}
    return lambda: cache.clear()


@case
def attribute():
    keep(Holder())
    kept.thing = Thing()
    return nothing


@case
def class_attribute():
    Holder.shared = [Thing()]

    def release():
        del Holder.shared

    return release


@functools.lru_cache(maxsize=8)
def cached(thing):
    return 1


class Own(Thing):
    """Held by the caches of its own methods."""

    @functools.cache  # noqa: B019
    def method(self, other):
        return 1

    @functools.lru_cache(maxsize=8)  # noqa: B019
    def bounded(self):
        return 1


@case
def cache_of_method():
    Own().method(1)
    return lambda: Own.method.cache_clear()


@case
def bounded_cache_of_method():
    Own().bounded()
    return lambda: Own.bounded.cache_clear()


@case
def cache_of_function():
    cached(Thing())
    return lambda: cached.cache_clear()


def fails(depth=0):
    if depth:
        fails(depth - 1)
    thing = Thing()
    raise KeyError(thing is None)


def caught(depth=0):
    try:
        fails(depth)
    except KeyError as error:
        return error


@case
def last_traceback():
    sys.last_traceback = caught().__traceback__

    def release():
        del sys.last_traceback

    return release


@case
def last_exc():
    sys.last_exc = caught()

    def release():
        del sys.last_exc

    return release


@case
def kept_exception():
    errors.append(caught())
    return lambda: errors.clear()


@case
def kept_traceback():
    errors.append(caught().__traceback__)
    return lambda: errors.clear()


@case
def deep_exception():
    errors.append(caught(40))
    return lambda: errors.clear()


@case
def handled_exception():
    def work(wait):
        try:
            fails()
        except KeyError:
            wait()

    return aside(work)


@case
def kept_frame():
    keep(caught().__traceback__.tb_next.tb_frame)
    return nothing


@case
def running_function():
    def work(wait):
        thing = Thing()
        wait()
        del thing

    return aside(work)


@case
def kept_and_at_work():
    """In a cache, and in a variable of who is at work on it."""

    def work(wait):
        thing = cache["thing"] = [Thing()][0]
        wait()
        del thing

    end = aside(work)

    def release():
        end()
        cache.clear()

    return release


@case
def argument():
    def work(wait):
        def inner(things, wait):
            wait()

        inner([Thing()], wait)

    return aside(work)


@case
def loop():
    """On no variable: in the iterator that a running function is at work on."""

    def work(wait):
        for _ in [0, [Thing()]]:
            wait()
            break

    return aside(work)


run()
