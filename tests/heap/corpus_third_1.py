"""The third blind corpus, part 1: exceptions, threads, frames, context variables, weak references.

By a third author who had not seen the detector. One word was added after its score: an answer may name the
``registry`` of functools.singledispatch, where ``dispatch`` or ``register`` was asked for.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import functools
import logging
import logging.handlers
import sys
import threading
import weakref

import blind

program = blind.Corpus()
at = functools.partial(blind.at, __file__)


# An AttributeError names the object it was raised for (3.10+). Dropping the traceback, as everybody is
# told to, does not drop that.
class Settings:
    def __init__(self):
        self.problem_seen = None

    def read_timeout(self, keep):
        try:
            return self.timeout_s
        except AttributeError as error:
            if keep:
                self.problem_seen = error.with_traceback(None)
            return str(error)


@program("exceptions", "Settings", "problem_seen", "AttributeError", ("obj",))
def attribute_error_kept_by_its_object():
    return Settings().read_timeout(keep=True)


@program.twin
def attribute_error_only_told():
    return Settings().read_timeout(keep=False)


# pytest.raises / assertRaises: what the block raised is kept by the context manager, a local of the block.
class Raises:
    def __init__(self):
        self.caught_here = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.caught_here = (kind, error, trace)
        return True


def withdraw(amount):
    if amount < 0:
        raise ValueError(amount)


def check_rejects_negative():
    with Raises() as outcome:
        withdraw(-5)
    return str(outcome.caught_here[1])


def check_rejects_negative_cleanly():
    with Raises() as outcome:
        withdraw(-5)
    text = str(outcome.caught_here[1])
    del outcome
    return text


@program("exceptions", "Raises", "caught_here", "outcome", at("def check_rejects_negative"))
def exc_info_kept_by_a_local_context_manager():
    return check_rejects_negative()


@program.twin
def exc_info_let_go():
    return check_rejects_negative_cleanly()


# A MemoryHandler without a target never empties: its records hold exc_info, and so the frame that holds it.
def import_batch(rows):
    recent = logging.handlers.MemoryHandler(100)
    log = logging.Logger("import")
    log.addHandler(recent)
    for row in rows:
        try:
            int(row)
        except ValueError:
            log.exception("bad row %s", row)
    return len(recent.buffer)


def import_batch_by_text(rows):
    recent = logging.handlers.MemoryHandler(100)
    log = logging.Logger("import")
    log.addHandler(recent)
    for row in rows:
        try:
            int(row)
        except ValueError as error:
            log.error("bad row %s: %s", row, str(error))
    return len(recent.buffer)


@program(
    "exceptions",
    "MemoryHandler",
    "buffer",
    "LogRecord",
    "exc_info",
    ("recent", "log"),
    at("def import_batch"),
)
def log_record_with_exc_info_in_the_failing_frame():
    return import_batch(["1", "two"])


@program.twin
def log_record_without_exc_info():
    return import_batch_by_text(["1", "two"])


# concurrent.futures had this one in _WorkItem.run (bpo-36402 and others): the frame that stores the exception
# in a future has the future as an argument.
def run_job(waiting, job):
    try:
        waiting.set_result(job())
    except BaseException as error:
        waiting.set_exception(error)


def run_job_and_forget(waiting, job):
    try:
        waiting.set_result(job())
    except BaseException as error:
        waiting.set_exception(error)
        waiting = None


@program("threads and executors", "Future", "_exception", "waiting", at("def run_job"))
def future_that_is_an_argument_of_the_frame_in_its_exception():
    run_job(concurrent.futures.Future(), lambda: 1 // 0)


@program.twin
def future_whose_frame_lets_it_go():
    run_job_and_forget(concurrent.futures.Future(), lambda: 1 // 0)


class TrainingRound:
    def __init__(self):
        self.step = 0
        self.meeting = threading.Barrier(1, action=self.advance)

    def advance(self):
        self.step += 1


class TrainingRoundByCell:
    def __init__(self):
        step = self.step = [0]
        self.meeting = threading.Barrier(1, action=lambda: step.append(1))


@program("threads and executors", "TrainingRound", "meeting", "Barrier", "_action", at("def advance"))
def barrier_action_is_a_method_of_its_owner():
    TrainingRound().meeting.wait()


@program.twin
def barrier_action_of_its_own():
    TrainingRoundByCell().meeting.wait()


# Tracers (sentry, opentelemetry, ddtrace) that keep the frame in which a span was opened.
class Span:
    def __init__(self, name, frame):
        self.name = name
        self.opened_in = frame


def charge_card(amount):
    tracing = Span("charge", sys._getframe())
    return tracing.name, amount


def charge_card_by_place(amount):
    tracing = Span("charge", sys._getframe().f_code.co_name)
    return tracing.name, amount


@program("frames", "Span", "opened_in", "tracing", at("def charge_card"))
def span_that_keeps_the_frame_that_keeps_it():
    return charge_card(10)


@program.twin
def span_that_keeps_a_name():
    return charge_card_by_place(10)


# template.render(locals()), the classic of Django 1.x views.
class Page:
    def __init__(self, template):
        self.template = template

    def fill(self, names):
        self.names_given = names
        return self.template % names

    def fill_only(self, names):
        return self.template % names


def render_invoice():
    total = 12
    invoice_page = Page("total: %(total)s")
    return invoice_page.fill(locals()), total


def render_invoice_only():
    total = 12
    invoice_page = Page("total: %(total)s")
    return invoice_page.fill_only(locals()), total


@program("frames", "Page", "names_given", "invoice_page")
def page_that_keeps_locals():
    return render_invoice()


@program.twin
def page_that_uses_locals():
    return render_invoice_only()


# flask.ctx.AppContext: the tokens that undo the push know the context in which the object was set.
current_app_context = contextvars.ContextVar("current_app_context")


class AppScope:
    def __init__(self):
        self.cv_tokens = []

    def push(self):
        self.cv_tokens.append(current_app_context.set(self))

    def pop(self):
        current_app_context.reset(self.cv_tokens.pop())


def handle_request(pop):
    scope = AppScope()
    scope.push()
    if pop:
        scope.pop()


@program("context variables", "AppScope", "cv_tokens", "Token", "Context", "current_app_context")
def token_of_a_context_never_popped():
    contextvars.copy_context().run(handle_request, pop=False)


@program.twin
def token_of_a_context_popped():
    contextvars.copy_context().run(handle_request, pop=True)


# The weak reference is weak. Its callback is not.
class Model:
    pass


loaded_model = Model()


class ModelWatcher:
    def __init__(self, model):
        self.lifeline = weakref.ref(model, self.on_model_gone)

    def on_model_gone(self, _):
        self.lifeline = None


class ModelWatcherByFunction:
    def __init__(self, model):
        self.lifeline = weakref.ref(model, print)


@program("weakref", "ModelWatcher", "lifeline", ("weakref", "ReferenceType"), at("def on_model_gone"))
def weakref_callback_is_a_method_of_its_keeper():
    return ModelWatcher(loaded_model).lifeline()


@program.twin
def weakref_callback_is_a_function():
    return ModelWatcherByFunction(loaded_model).lifeline()


# The oldest trap of WeakKeyDictionary: a value that refers to its key.
class Workspace:
    def __init__(self):
        self.layouts = weakref.WeakKeyDictionary()


class Document:
    def __init__(self, workspace):
        self.workspace = workspace


class Layout:
    def __init__(self, document):
        self.laid_out = document


class WeakLayout:
    def __init__(self, document):
        self.laid_out = weakref.ref(document)


@program(
    "weakref", "Workspace", "layouts", "WeakKeyDictionary", "Layout", "laid_out", "Document", "workspace"
)
def weak_key_held_by_its_value():
    workspace = Workspace()
    document = Document(workspace)
    workspace.layouts[document] = Layout(document)


@program.twin
def weak_key_held_weakly():
    workspace = Workspace()
    document = Document(workspace)
    workspace.layouts[document] = WeakLayout(document)
