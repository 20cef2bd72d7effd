"""A client for the tests: submit.py CLIENTS URL TOKEN PLAN KEY [SIGNAL]. It submits a plan, signals and prints the result."""
import json
import sys

clients, url, token, plan, key, *names = sys.argv[1:]
sys.path.insert(0, clients)
from orch_client import Client  # noqa: E402

node = Client(url, token)
task = node.submit(json.loads(plan), key=key)
assert task == node.submit(json.loads(plan), key=key), "the same key is the same task"
for name in names:
    node.signal(task, name, {"factor": 3})
print(json.dumps(node.wait(task, timeout=120)))
