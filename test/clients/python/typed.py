"""What a program does with the client that TypeSpec generates from the description of the API, against the node at ORCH_URL."""

import json
import os
import unittest
from typing import Any, Iterator, List, NamedTuple, Optional, cast

from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpResponse
from orch import orchClient
from orch.models import ErrorBody, ErrorDetails, TaskView

LOG = {"id": "say", "tool": "LOG_WRITE", "with": {"level": "INFO", "message": "hello"}}


def client(token: str) -> orchClient:
    """Return a client with a token."""
    return orchClient(endpoint=os.environ["ORCH_URL"], headers={"Authorization": "Bearer " + token})


def details(error: HttpResponseError) -> ErrorDetails:
    """Return what the node says about an error."""
    assert isinstance(error.model, ErrorBody)
    return error.model.error


class Event(NamedTuple):
    """A server-sent event."""

    id: str
    name: str
    data: Any


def follow(api: orchClient, task: str, after: Optional[str] = None) -> Iterator[Event]:
    """Yield the events of a task. The generated method returns the answer as it comes."""
    sent = api.task_events(task, last_event_id=after, stream=True, cls=lambda answer, *_: answer.http_response)
    with cast(HttpResponse, sent) as answer:
        rest = b""
        for part in answer.iter_bytes():
            *events, rest = (rest + part).split(b"\n\n")
            for event in events:
                fields = dict(line.split(": ", 1) for line in event.decode().splitlines())
                if "data" in fields:
                    yield Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))


class Dialogue(unittest.TestCase):
    api: orchClient

    @classmethod
    def setUpClass(cls) -> None:
        cls.api = client(os.environ["ORCH_TOKEN"])
        cls.addClassCleanup(cls.api.close)

    def test_submits_once(self) -> None:
        body = {"plan": {"orch": "v1", "name": "once", "steps": [LOG]}, "labels": {"by": "typed"}}
        first = self.api.submit(body, idempotency_key="typed-once")
        again = self.api.submit(body, idempotency_key="typed-once")
        self.assertEqual(again.id, first.id)
        self.assertTrue(again.existing)
        self.assertFalse(first.existing)
        self.assertEqual(self.api.result(first.id, wait="30s").state, "DONE")
        task: TaskView = self.api.get(first.id)
        self.assertEqual(task.labels, {"by": "typed"})
        self.assertEqual([step.tool for step in task.steps or []], ["LOG_WRITE"])
        self.assertGreaterEqual(task.updated_at, task.created_at)

    def test_reads_pages(self) -> None:
        plan = {"orch": "v1", "name": "typed-page", "steps": [LOG]}
        wanted = [task.id for task in self.api.submit_batch({"tasks": [{"plan": plan}] * 5}).tasks or []]
        found: List[str] = []
        cursor: Optional[str] = None
        while True:
            page = self.api.list(name="typed-page", limit=2, cursor=cursor)
            self.assertLessEqual(len(page.tasks or []), 2)
            found += [task.id for task in page.tasks or []]
            cursor = page.next
            if not cursor:
                break
        self.assertEqual(len(wanted), 5)
        self.assertEqual(sorted(found), sorted(str(id) for id in wanted))

    def test_approves_and_follows(self) -> None:
        step = {"id": "write", "tool": "FILE_WRITE", "with": {"file_path": os.environ["ORCH_ROOT"] + "/typed.txt", "content": "hello"}}
        task = self.api.submit({"plan": {"orch": "v1", "name": "follow", "steps": [step]}}).id
        seen: List[Event] = []
        for event in follow(self.api, task):
            seen.append(event)
            if any(happened["kind"] == "approval.requested" for happened in event.data.get("events", [])):
                break
        approval = (self.api.approvals(task=task).approvals or [])[0]
        self.assertEqual(approval.tool, "FILE_WRITE")
        self.assertEqual(self.api.decide(approval.id, {"as": "granted", "reason": "fine"}).status, "granted")
        seen += follow(self.api, task, after=seen[-1].id)
        revisions = [event.data["rev"] for event in seen if event.name == "commit"]
        self.assertEqual(revisions, [commit.rev for commit in self.api.history(task).commits or []])
        self.assertEqual((seen[-1].name, seen[-1].data), ("end", {"state": "DONE"}))

    def test_gets_errors(self) -> None:
        with self.assertRaises(HttpResponseError) as caught:
            self.api.list(limit=5000)
        error = details(caught.exception)
        self.assertEqual((caught.exception.status_code, error.code, error.field), (400, "VALIDATION_ERROR", "limit"))
        with self.assertRaises(HttpResponseError) as caught:
            self.api.get("tsk_none")
        self.assertEqual(details(caught.exception).code, "NOT_FOUND")
        with client("wrong") as stranger, self.assertRaises(HttpResponseError) as caught:
            stranger.status()
        self.assertEqual(details(caught.exception).code, "UNAUTHORIZED")


if __name__ == "__main__":
    unittest.main(verbosity=2)
