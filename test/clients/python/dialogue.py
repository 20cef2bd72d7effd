"""What a program does with examples/python/orch_api.py, which reads the description of the API, against the node at ORCH_URL."""

import json
import os
import sys
import unittest
from pathlib import Path

repository = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(repository / "examples" / "python"))

from orch_api import APIError, Client  # noqa: E402

LOG = {"id": "say", "tool": "LOG_WRITE", "with": {"level": "INFO", "message": "hello"}}


class Dialogue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.document = json.loads((repository / "docs" / "reference" / "openapi.json").read_text())
        cls.api = Client(os.environ["ORCH_URL"], os.environ["ORCH_TOKEN"], cls.document)

    def test_submits_once(self):
        plan = {"orch": "v1", "name": "once", "steps": [LOG]}
        first = self.api.submit(body={"plan": plan, "labels": {"by": "python"}}, idempotency_key="python-once")
        again = self.api.submit(body={"plan": plan, "labels": {"by": "python"}}, idempotency_key="python-once")
        self.assertEqual(again["id"], first["id"])
        self.assertTrue(again["existing"])
        self.assertEqual(self.api.result(id=first["id"], wait="30s")["state"], "DONE")
        task = self.api.get(id=first["id"])
        self.assertEqual(task["labels"], {"by": "python"})
        self.assertEqual(task["steps"][0]["tool"], "LOG_WRITE")

    def test_reads_pages(self):
        plan = {"orch": "v1", "name": "python-page", "steps": [LOG]}
        wanted = [task["id"] for task in self.api.submit_batch(body={"tasks": [{"plan": plan}] * 5})["tasks"]]
        found, cursor = [], None
        while True:
            page = self.api.list(name="python-page", limit=2, cursor=cursor)
            self.assertLessEqual(len(page["tasks"]), 2)
            found += [task["id"] for task in page["tasks"]]
            cursor = page.get("next")
            if not cursor:
                break
        self.assertEqual(sorted(found), sorted(wanted))

    def test_approves_and_follows(self):
        step = {"id": "write", "tool": "FILE_WRITE", "with": {"file_path": os.environ["ORCH_ROOT"] + "/python.txt", "content": "hello"}}
        task = self.api.submit(body={"plan": {"orch": "v1", "name": "follow", "steps": [step]}})["id"]
        seen = []
        for event in self.api.task_events(id=task):
            seen.append(event)
            if any(happened["kind"] == "approval.requested" for happened in event.data.get("events", [])):
                break
        approval = self.api.approvals(task=task)["approvals"][0]
        self.assertEqual(approval["tool"], "FILE_WRITE")
        self.assertEqual(self.api.decide(id=approval["id"], body={"as": "granted", "reason": "fine"})["status"], "granted")
        seen += self.api.task_events(id=task, last_event_id=seen[-1].id)
        revisions = [event.data["rev"] for event in seen if event.name == "commit"]
        self.assertEqual(revisions, [commit["rev"] for commit in self.api.history(id=task)["commits"]])
        self.assertEqual((seen[-1].name, seen[-1].data), ("end", {"state": "DONE"}))

    def test_gets_errors(self):
        with self.assertRaises(APIError) as caught:
            self.api.list(limit=5000)
        self.assertEqual((caught.exception.status, caught.exception.code, caught.exception.field), (400, "VALIDATION_ERROR", "limit"))
        with self.assertRaises(APIError) as caught:
            self.api.get(id="tsk_none")
        self.assertEqual(caught.exception.code, "NOT_FOUND")
        with self.assertRaises(APIError) as caught:
            Client(os.environ["ORCH_URL"], "wrong", self.document).status()
        self.assertEqual(caught.exception.code, "UNAUTHORIZED")

    def test_refuses_what_the_document_lacks(self):
        with self.assertRaises(AttributeError):
            self.api.no_such_operation()
        with self.assertRaises(TypeError):
            self.api.list(colour="red")
        with self.assertRaises(TypeError):
            self.api.get()
        with self.assertRaises(TypeError):
            self.api.status(body={})

    def test_reads_the_document_of_the_node(self):
        api = Client(os.environ["ORCH_URL"], os.environ["ORCH_TOKEN"])
        self.assertEqual(dir(api), dir(self.api))
        self.assertEqual(api.status()["role"], "operator")


if __name__ == "__main__":
    unittest.main(verbosity=2)
