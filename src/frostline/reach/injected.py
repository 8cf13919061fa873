# mypy: ignore-errors
# What a process runs that is attached to (`attach.py` puts PARAMETERS in front of this text).
#
# It runs in the process's main thread, in a namespace of its own, between two bytecodes of the program.
# It raises nothing into the program, and keeps nothing there: what a signal handler of the program's
# raises meanwhile is handed back to the program.
import os
import sys
import time


def _work(parameters):
    try:
        os.unlink(parameters["script"])  # claimed: an attach that was given up, or a second run, stops here
    except OSError:
        return
    begun = time.monotonic_ns()
    worked = time.thread_time_ns()
    word = detail = ""
    foreign = None
    try:
        word = _attach(parameters)
    except Exception as error:
        word, detail = "failed", type(error).__name__ + ": " + str(error)[:200]
        innermost = error.__traceback__
        while innermost.tb_next is not None:
            innermost = innermost.tb_next
        name = innermost.tb_frame.f_code.co_filename
        if name != _work.__code__.co_filename and "frostline" not in name and "importlib" not in name:
            foreign = error  # a time limit of the program's, say, that struck while we ran
    except BaseException as error:
        word, detail, foreign = "failed", "interrupted by " + type(error).__name__, error
    reply = parameters["reply"]
    try:
        descriptor = os.open(reply + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.write(
            descriptor,
            "\t".join(
                (word, str(time.monotonic_ns() - begun), str(time.thread_time_ns() - worked), detail)
            ).encode("utf-8", "replace"),
        )
        os.close(descriptor)
        os.rename(reply + ".new", reply)
    except OSError:
        pass
    if foreign is not None:
        _hand_back(foreign)


def _attach(parameters):
    if sys.implementation.name != "cpython" or sys.version_info < (3, 10):
        return "not-supported"
    module = sys.modules.get("frostline")
    if module is None:
        library = parameters["library"]
        sys.path.append(library)
        try:
            module = __import__("frostline")
        finally:
            # What it loads later it finds through its own __path__.
            if library in sys.path:
                sys.path.remove(library)
    elif module.__version__ != parameters["version"]:
        return "other-version"
    attaching = __import__("frostline.agent.attaching", None, None, ["attach"])
    if attaching.inside_callback():
        return "busy"
    return attaching.attach(parameters["settings"], parameters["fallback"], parameters["children"])


def _hand_back(error):
    import _thread

    if isinstance(error, KeyboardInterrupt):
        _thread.interrupt_main()
        return
    probe = sys.modules.get("frostline.probe")
    recorder = probe.recorder_of_this_process() if probe is not None else None
    if recorder is None or not recorder.control:
        raise error
    recorder.foreign = error
    _thread.interrupt_main(23)


try:
    _work(PARAMETERS)  # noqa: F821
finally:
    # Functions refer to their namespace, and it to them: a cycle that the program's collector would find.
    globals().clear()
