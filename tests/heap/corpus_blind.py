"""Programs that leave cycles, and twins that do not, by somebody who had not seen the detector.

The words were written before the detector was run: what a stranger expects who has read docs/heap.md.
The shapes are those of public reports against real projects.
Part one: the program's own classes and functions. Parts two to four:
corpus_blind_tasks.py, corpus_blind_library.py, corpus_blind_objects.py.
"""

# ruff: noqa: SIM105
from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
import weakref

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# --- exceptions -----------------------------------------------------------------------------------
class FetchFailed(Exception):
    pass


@program("exceptions", "FetchFailed", "fetch_with_retry", at("def fetch_with_retry"), "last_error")
def retry_keeps_the_last_error():
    def fetch_with_retry():
        last_error = None
        for _ in range(2):
            try:
                raise FetchFailed("no route")
            except FetchFailed as problem:
                last_error = problem
        raise last_error

    try:
        fetch_with_retry()
    except FetchFailed:
        pass


@program.twin
def retry_lets_it_go():
    def fetch_and_clear():
        last_error = None
        try:
            raise FetchFailed("no route")
        except FetchFailed as problem:
            last_error = problem
        try:
            raise last_error
        finally:
            del last_error

    try:
        fetch_and_clear()
    except FetchFailed:
        pass


class ImportJob:
    def __init__(self):
        self.failure = None

    def run_import(self):
        try:
            int("x")
        except ValueError as problem:
            self.failure = problem

    def run_and_note(self):
        try:
            int("x")
        except ValueError as problem:
            self.failure = str(problem)


@program("exceptions", "ImportJob", "failure", "ValueError", "run_import", at("def run_import"))
def job_keeps_its_failure():
    ImportJob().run_import()


@program.twin
def job_keeps_the_text_of_it():
    ImportJob().run_and_note()


@program("exceptions", "validate_all", at("def validate_all"), "problems", "KeyError")
def validation_gathers_errors():
    def validate_all():
        problems = []
        for key in ("name", "age"):
            try:
                {}[key]
            except KeyError as problem:
                problems.append(problem)
        return len(problems)

    validate_all()


@program.twin
def validation_gathers_texts():
    problems = []
    for key in ("name", "age"):
        try:
            {}[key]
        except KeyError as problem:
            problems.append(repr(problem))


@program("exceptions", "report_crash", at("def report_crash"), "info", "traceback")
def exc_info_in_a_variable():
    def report_crash():
        try:
            raise RuntimeError("boom")
        except RuntimeError:
            info = sys.exc_info()
        return info[0].__name__

    report_crash()


@program.twin
def exc_info_is_not_taken():
    with contextlib.suppress(RuntimeError):
        raise RuntimeError("boom")


@program("frames", "who_called", at("def who_called"), "current", "frame")
def a_frame_in_its_own_variable():
    def who_called():
        current = inspect.currentframe()
        return current.f_back.f_code.co_name

    who_called()


@program.twin
def a_frame_is_dropped():
    return inspect.currentframe().f_code.co_name


# --- closures -------------------------------------------------------------------------------------
@program("closures", "function descend", at("def descend"), "descend")
def a_recursive_inner_function():
    def descend(node):
        return [descend(child) for child in node]

    descend([[], [[]]])


def descend_plain(node):
    return [descend_plain(child) for child in node]


@program.twin
def a_recursive_module_function():
    descend_plain([[], [[]]])


@program(
    "closures",
    "function render_list",
    at("def render_list"),
    "function render_item",
    at("def render_item"),
)
def two_functions_call_each_other():
    def render_item(item):
        return render_list(item) if isinstance(item, list) else str(item)

    def render_list(items):
        return [render_item(item) for item in items]

    render_list([1, [2]])


@program.twin
def a_function_without_a_name_of_itself():
    return [str(item) for item in (1, 2)]


class Button:
    def __init__(self):
        self.handlers = {}

    def wire(self):
        def on_click():
            return self.handlers

        self.handlers["click"] = on_click

    def wire_weakly(self):
        here = weakref.ref(self)
        self.handlers["click"] = lambda: here()


@program("closures", "Button", "handlers", "click", "function on_click", at("def on_click"), "self")
def a_handler_closes_over_its_widget():
    Button().wire()


@program.twin
def a_handler_knows_its_widget_weakly():
    Button().wire_weakly()


# --- bound methods --------------------------------------------------------------------------------
class Scheduler:
    def __init__(self):
        self.hooks = []

    def on_tick(self):
        return self.hooks


class Dispatcher:
    def __init__(self):
        self.routes = {"start": self.on_start}

    def on_start(self): ...


@program("bound methods", "Scheduler", "hooks", "method on_tick")
def a_listener_list():
    scheduler = Scheduler()
    scheduler.hooks.append(scheduler.on_tick)


@program.twin
def a_weak_listener_list():
    scheduler = Scheduler()
    scheduler.hooks.append(weakref.WeakMethod(scheduler.on_tick))


@program("bound methods", "Dispatcher", "routes", "start", "method on_start")
def a_dispatch_table():
    Dispatcher()


@program.twin
def a_table_of_names():
    return getattr(Scheduler(), "on_tick")()  # noqa: B009


# --- case 03's hook, in the forms people write -----------------------------------------------------
class Submission:
    def submit(self):
        return 1

    async def submit_later(self):
        return 1


def timed_call(inner, *arguments):
    return inner(*arguments)


@program("hook", "Submission", "submit", "partial", "timed_call", at("def timed_call"))
def hook_by_partial():
    submission = Submission()
    submission.submit = functools.partial(timed_call, submission.submit)
    submission.submit()


@program.twin
def hook_by_partial_of_the_class():
    submission = Submission()
    functools.partial(timed_call, Submission.submit, submission)()


@program(
    "hook", "Submission", "submit_later", "function timed_async", at("async def timed_async"), "original"
)
def hook_async():
    submission = Submission()
    original = submission.submit_later

    async def timed_async():
        return await original()

    submission.submit_later = timed_async


@program.twin
def hook_async_on_a_proxy():
    inner = Submission()

    async def timed_outside():
        return await inner.submit_later()

    return types.SimpleNamespace(submit_later=timed_outside)


def instrumented(cls):
    plain = cls.__init__

    @functools.wraps(plain)
    def set_up(self):
        plain(self)
        inner = self.collect_rows

        @functools.wraps(inner)
        def measured(*arguments):
            return inner(*arguments)

        self.collect_rows = measured

    cls.__init__ = set_up
    return cls


@instrumented
class Query:
    def __init__(self):
        self.rows = []

    def collect_rows(self):
        return self.rows


@program("hook", "Query", "collect_rows", (at("@functools.wraps(inner)"), at("def measured")))
def hook_by_class_decorator():
    Query().collect_rows()


@program.twin
def without_the_class_decorator():
    return Button().handlers


class Timed:
    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __call__(self):
        return self.wrapped()


@program("hook", "Submission", "submit", "Timed", "wrapped", "method submit")
def hook_by_callable_object():
    submission = Submission()
    submission.submit = Timed(submission.submit)
    submission.submit()


@program.twin
def hook_by_callable_around_it():
    Timed(Submission().submit)()


def timed_submit(self):
    return Submission.submit(self)


@program("hook", "Submission", "submit", "timed_submit", at("def timed_submit"))
def hook_by_method_type():
    submission = Submission()
    submission.submit = types.MethodType(timed_submit, submission)
    submission.submit()


@program.twin
def hook_on_a_subclass():
    SubmissionTimed().submit()


class SubmissionTimed(Submission):
    submit = timed_submit


@program("hook", "Submission", "property", "owner", at("watched = lambda"))
def hook_by_property_on_a_class_of_its_own():
    submission = Submission()
    watched = lambda self: submission  # noqa: E731
    submission.__class__ = type("Submission", (Submission,), {"owner": property(watched)})


@program.twin
def no_property():
    return Submission().submit()
