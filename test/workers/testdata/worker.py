"""A worker for the tests: worker.py CLIENTS CREDENTIAL DIR. It writes down each effect before it answers."""
import os
import signal
import sys

clients, credential, folder = sys.argv[1:]
sys.path.insert(0, clients)
from orch_client import Release, Worker  # noqa: E402

worker = Worker.from_file(credential, slots=8)
signal.signal(signal.SIGTERM, lambda *_: worker.stop())


@worker.tool("square")
def square(call):
    call.progress(1, 2, "squaring")
    with open(os.path.join(folder, "effects"), "a", encoding="utf-8") as file:
        file.write(call.key + "\n")
    return call.data["n"] ** 2


@worker.tool("fail")
def fail(call):
    raise ValueError("not a number")


@worker.tool("busy")
def busy(call):
    if call.ref["attempt"] == 1:
        raise Release("busy")
    return "done"


@worker.tool("until-stopped")
def until_stopped(call):
    open(os.path.join(folder, "begun"), "w", encoding="utf-8").close()
    call.stopped.wait()
    open(os.path.join(folder, "stopped"), "w", encoding="utf-8").close()


worker.run()
