"""What the tests have a worker do: each function returns a handler."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path


def echo(payload):
    return lambda request: {"payload": payload, "request": request, "pid": os.getpid()}


def meeting(payload):
    """Wait until so many files are in the folder that the request names, and have added one."""

    def handler(request):
        folder = Path(request["folder"])
        (folder / str(os.getpid())).touch()
        while len(list(folder.iterdir())) < request["members"]:
            time.sleep(0.01)
        return os.getpid()

    return handler


def sleeper(payload):
    def handler(seconds):
        time.sleep(seconds)
        return seconds

    return handler


def evil(payload):
    """Do what the request says."""

    def handler(request):
        return getattr(Deeds, request["do"])(**request.get("with", {}))

    return handler


def fails_to_load(payload):
    raise OSError("no such device")


def hangs_at_start(payload):
    time.sleep(60)


class Deeds:
    @staticmethod
    def hang():
        time.sleep(60)

    @staticmethod
    def hang_in_c():
        # Holds the interpreter's lock: no Python thread runs any more.
        ctypes.PyDLL(None).sleep(60)

    @staticmethod
    def die(number):
        os.kill(os.getpid(), number)
        time.sleep(10)

    @staticmethod
    def fault():
        ctypes.string_at(0)

    @staticmethod
    def leave(status):
        print("leaving", file=sys.stderr)
        sys.exit(status)

    @staticmethod
    def fail():
        return 1 // 0

    @staticmethod
    def not_json():
        return {1, 2}

    @staticmethod
    def scribble():
        for handle in range(1, 64):
            with contextlib.suppress(OSError):
                os.write(handle, b"garbage\n")

    @staticmethod
    def chatter():
        print("printed")
        os.write(1, b"written\n")
        os.system("echo by a child")
        return sys.stdin.read()

    @staticmethod
    def spawn():
        return os.posix_spawnp("sleep", ["sleep", "60"], os.environ)

    @staticmethod
    def interrupt_and_hang():
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)

    @staticmethod
    def large(size):
        return "x" * size

    @staticmethod
    def noisy(lines):
        for at in range(lines):
            print(f"line {at}", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)

    @staticmethod
    def environment():
        return dict(os.environ)

    @staticmethod
    def signals():
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        return {"ignores_sigint": ignored, "group": os.getpgrp(), "pid": os.getpid()}
