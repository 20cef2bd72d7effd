"""A client of a node and a worker for it, with nothing but the standard library of Python 3.10 or newer.

    node = Client("http://127.0.0.1:7424", token)
    print(node.wait(node.submit(plan))["state"])
    worker = Worker.from_file("worker.json", slots=8)     # orch agents register photos --capability resize -o json > worker.json
    @worker.tool("resize")
    def resize(call):
        return {"width": call.data["width"] // 2}
    worker.run()                                          # until worker.stop()
"""

import http.client
import json
import os
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any, Callable
from urllib.parse import quote, urlsplit

SECOND = 1_000_000_000  # durations in bodies are nanoseconds
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class OrchError(Exception):
    """An error that the node answers. code is a name of its registry, such as NOT_FOUND."""

    def __init__(self, status: int, details: dict):
        self.status, self.retry_after = status, details.get("retry_after")
        self.code, self.field, self.message = (details.get(name, "") for name in ("code", "field", "message"))
        super().__init__(f"{self.code} {self.field}: {self.message}")


class Client:
    """A node. Threads may share it: each of them has a connection of its own."""

    def __init__(self, url: str, token: str, timeout: float = 90):
        self.url, self.token, self.timeout = urlsplit(url), token, timeout
        self._local, self.renewing = threading.local(), threading.Lock()

    def submit(self, plan: dict, inputs: Any = None, key: str = "", **fields: Any) -> str:
        """Submit a plan and return the id of the task. With a key, a plan that is submitted again is the same task."""
        body = {"plan": plan, **fields} | ({} if inputs is None else {"inputs": inputs})
        return self.request("POST", "/api/v1/tasks", body, {"Idempotency-Key": key} if key else {}, retry=bool(key))["id"]

    def wait(self, task: str, timeout: float | None = None) -> dict:
        """Wait for the end of a task, and return its state, output and error. Raise TimeoutError after timeout seconds."""
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            left = max(min(30.0, end - time.monotonic()), 0)
            result = self.request("GET", f"/api/v1/tasks/{quote(task)}/result?wait={left:.3f}s", retry=True)
            if result.get("over"):
                return result
            if time.monotonic() >= end:
                raise TimeoutError(f"{task} is {result['state']}")

    def signal(self, task: str, name: str, data: Any = None) -> None:
        """Deliver data to a step that waits for a signal."""
        self.request("POST", f"/api/v1/tasks/{quote(task)}/signal", {"name": name, "data": data})

    def request(self, verb: str, path: str, body: Any = None, headers: dict | None = None, retry: bool = False) -> Any:
        """Send a request and return the JSON of the answer. With retry, repeat it while the node cannot be reached."""
        text = None if body is None else json.dumps(body).encode()
        delay = 0.05
        while True:
            token = self.token
            try:
                status, answer = self._send(verb, path, text, {"Authorization": "Bearer " + token, "Content-Type": "application/json", **(headers or {})})
            except (OSError, http.client.HTTPException):
                if not retry:
                    raise
            else:
                if status < 300:
                    return answer
                with self.renewing:
                    if status == 401 and token != self.token:
                        continue
                error = OrchError(status, answer.get("error", answer) if isinstance(answer, dict) else {"message": str(answer)[:200]})
                if not retry or status < 500 and status != 429:
                    raise error
                delay = max(delay, error.retry_after or 0)
            time.sleep(delay * (1 + secrets.randbelow(500) / 1000))
            delay = min(delay * 2, 5)

    def _send(self, verb: str, path: str, text: bytes | None, headers: dict) -> tuple[int, Any]:
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        connection = getattr(self._local, "connection", None) or kind(self.url.hostname, self.url.port, timeout=self.timeout)
        self._local.connection = connection
        try:
            connection.request(verb, path, text, headers)
            answer = connection.getresponse()
            data = answer.read()
        except BaseException:
            self._local.connection = connection.close()
            raise
        return answer.status, json.loads(data) if answer.headers.get_content_type() == "application/json" else data.decode(errors="replace")


class Call:
    """A call that a handler works on."""

    def __init__(self, sent: dict):
        self.ref = self.running = {name: sent[name] for name in ("task", "step", "attempt")}
        self.id, self.key, self.lease = sent["call"], sent["key"], sent["lease"] / SECOND
        self.title, self.requires, self.data = (sent["args"].get(name) for name in ("title", "requires", "data"))
        self.ends = time.monotonic() + sent["left"] / SECOND
        self.handover, self.handover_data = sent.get("handover", ""), sent.get("handover_data")
        self.stopped = threading.Event()  # set when the call was cancelled or has no time left

    def progress(self, done: float, total: float = 0, message: str = "") -> None:
        """Show how far the call is, with the next request."""
        self.running = self.ref | {"progress": {"done": done, "total": total, "message": message}}


class Release(Exception):
    """Raised by a handler to give its call back. Release(reason, True) says that it may have changed something."""

    unsure = property(lambda self: len(self.args) > 1 and bool(self.args[1]))


class Worker:
    """A worker for the capabilities of a registered agent. It speaks version 1 of the worker protocol."""

    def __init__(self, url: str, token: str, slots: int = 1, wait: float = 20, drain: float = 10, credential: "Credential | None" = None):
        self.client, self.slots, self.wait, self.drain, self.credential = Client(url, token), slots, wait, drain, credential
        self.instance, self._changed = secrets.token_hex(16), threading.Condition()
        self._tools: dict[str, Callable[[Call], Any]] = {}
        self._calls: dict[str, Call] = {}  # until the receipt of their reports
        self._reports: dict[str, dict] = {}  # of calls that have ended
        self._sending: set[str] = set()
        self._polling, self._stopping, self._failure = False, False, None

    @classmethod
    def from_file(cls, path: str, **options: Any) -> "Worker":
        """Return a worker with the credential in a file, which it renews there."""
        credential = Credential(path)
        return cls(credential.fields["url"], credential.fields["secret"], credential=credential, **options)

    def tool(self, capability: str) -> Callable:
        """Decorate the handler of the calls that require a capability. It returns the result, a JSON value."""
        return lambda handler: self._tools.setdefault(capability, handler)

    def stop(self) -> None:
        """Take no more calls, and let run return when those that run have ended, or drain seconds have passed."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self) -> None:
        """Work until stop is called. Raise OrchError if the node refuses the worker."""
        with ThreadPoolExecutor(self.slots) as pool:
            threads = [threading.Thread(target=self._guard, args=(loop, pool)) for loop in (self._poll, self._report)]
            list(map(threading.Thread.start, threads))
            with self._changed:
                try:
                    self._changed.wait_for(lambda: self._stopping)
                except KeyboardInterrupt:
                    self._stopping = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._failure or len(self._reports) == len(self._calls), self.drain)
                for name, call in self._calls.items():
                    call.stopped.set()
                    self._reports.setdefault(name, call.ref | {"release": True, "unsure": True})
            while threads[0].is_alive() and not self._failure:
                self._guard(lambda _: self._ask(wait=1e-9), pool)  # ends the request that waits
                threads[0].join(0.05)
            list(map(threading.Thread.join, threads))
        if self._failure:
            raise self._failure
        self._ask(leaving=True)

    def _guard(self, loop: Callable, pool: ThreadPoolExecutor) -> None:
        try:
            loop(pool)
        except Exception as failure:
            with self._changed:
                self._failure, self._stopping = self._failure or failure, True
                self._changed.notify_all()

    def _poll(self, pool: ThreadPoolExecutor) -> None:
        """Take calls, and report those that have ended meanwhile. Only a request without reports waits for calls."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self.slots + len(self._reports) > len(self._calls))
                if self._stopping:
                    return
                take, wait = self.slots + len(self._reports) - len(self._calls), 0 if self._unsent() else self.wait
                self._polling = True
            answer = self._ask(take=take, wait=wait)
            with self._changed:
                self._polling = False
                for sent in answer.get("calls", []):
                    call = self._calls[sent["call"]] = Call(sent)
                    pool.submit(self._handle, call)
                self._changed.notify_all()

    def _report(self, _: ThreadPoolExecutor) -> None:
        """Report what ends while a request for calls waits, and keep the leases."""
        def due() -> bool:
            return bool(self._failure or self._unsent() and (self._stopping or self._polling) or self._stopping and not self._calls)
        while not self._failure:
            with self._changed:
                began = time.monotonic()
                while not due() and (left := began + min((call.lease for call in self._calls.values()), default=60) / 4 - time.monotonic()) > 0:
                    self._changed.wait(left)
                if self._stopping and not self._calls:
                    return
            if self._calls:
                self._ask()
            if self.credential and self.credential.due():
                self.credential.renew(self.client)

    def _unsent(self) -> list[str]:
        return [name for name in self._reports if name not in self._sending]

    def _ask(self, take: int = 0, wait: float = 0, leaving: bool = False) -> dict:
        """Send a request with all reports that no other request has, and process the receipts and stops."""
        with self._changed:
            mine = self._unsent()[:500]
            self._sending.update(mine)
            done, running = [self._reports[name] for name in mine], [call.running for name, call in self._calls.items() if name not in mine]
            body = {"instance": self.instance, "done": done, "running": running, "take": take, "wait": int(wait * SECOND), "leaving": leaving}
        try:
            answer = self.client.request("POST", "/api/v1/work", body, retry=True)
        finally:
            self._sending.difference_update(mine)
        with self._changed:
            for name, receipt in zip(mine, answer.get("done", [])):
                self._received(name, receipt.get("error"))
            for ref in answer.get("stop", []):
                name = f"{ref['task']}/{ref['attempt']}/{ref['step']}"
                if name in self._calls and name not in self._sending:
                    self._calls.pop(name).stopped.set()
                    self._reports.pop(name, None)
            self._changed.notify_all()
        return answer

    def _received(self, name: str, error: dict | None) -> None:
        if error and error["name"] in ("UNAVAILABLE", "RATE_LIMITED"):
            return
        report = self._reports.pop(name, None)
        if error and error["name"] != "CONFLICT" and report and "error" not in report:
            self._reports[name] = self._calls[name].ref | {"error": f"the report was refused: {error['message']}"[:1000]}
        else:
            self._calls.pop(name, None)

    def _handle(self, call: Call) -> None:
        try:
            name = next((name for name in call.requires or () if name in self._tools), None)
            if name is None or self._stopping:
                raise Release("the worker stops" if self._stopping else f"the worker has no tool for {call.requires}")
            report = {"result": self._tools[name](call)}
            json.dumps(report)
        except Release as back:
            report = {"release": True, "unsure": back.unsure, "error": str((back.args or [""])[0])}
        except Exception as failure:
            report = {"error": f"{type(failure).__name__}: {failure}"[:1000]}
        with self._changed:
            if call.id in self._calls:
                self._reports.setdefault(call.id, call.ref | report)
            self._changed.notify_all()


class Credential:
    """The file of the credential of an agent, as orch agents register -o json prints it."""

    def __init__(self, path: str):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.fields = json.load(file)

    def due(self) -> bool:
        """Whether more than half of its life has passed, or a renewal was interrupted."""
        issued, expires = (datetime.fromisoformat(self.fields[name].replace("Z", "+00:00")[:19] + "+00:00") for name in ("issued_at", "expires_at"))
        return bool(self.fields.get("next")) or datetime.now(timezone.utc) > issued + (expires - issued) / 2

    def renew(self, client: Client) -> None:
        """Replace the secret. The next one is in the file before the node knows its digest, so that no crash loses both."""
        following = self.fields.get("next") or "orch_" + "".join(secrets.choice(ALPHABET) for _ in range(43))
        self._write(next=following)
        body = {"digest": sha256(following.encode()).hexdigest()}
        with client.renewing:
            try:
                answer = Client(self.fields["url"], self.fields["secret"]).request("POST", "/agents/credential", body, retry=True)
            except OrchError as error:
                if error.status != 401:
                    raise
                answer = Client(self.fields["url"], following).request("POST", "/agents/credential", body, retry=True)
            client.token = following
        self._write(next="", secret=following, issued_at=datetime.now(timezone.utc).isoformat(), expires_at=answer["expires_at"])

    def _write(self, **fields: str) -> None:
        self.fields |= fields
        with open(os.open(self.path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0) as file:
            file.write(json.dumps(self.fields).encode())
            os.fsync(file.fileno())
        os.replace(self.path + ".new", self.path)
