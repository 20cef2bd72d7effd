"""A worker for the kit: worker.py CLIENTS SLOTS. It returns the data of a call after data["seconds"]."""
import os
import signal
import sys

sys.path.insert(0, sys.argv[1])
from orch_client import Worker  # noqa: E402

worker = Worker.from_file(os.environ["ORCH_CREDENTIAL"], slots=int(sys.argv[2]), drain=1)
signal.signal(signal.SIGTERM, lambda *_: worker.stop())


@worker.tool("conform")
def conform(call):
    call.stopped.wait(call.data["seconds"])
    return call.data


worker.run()
