"""A client of the HTTP API of a node, with nothing but the standard library.

It reads the OpenAPI document of the node and offers each operation by its id:

    api = Client("http://127.0.0.1:7424", token)
    task = api.submit(body={"plan": plan}, idempotency_key="report-1")
    for event in api.task_events(id=task["id"]):
        print(event.name, event.data)

Parameters are keyword arguments; the hyphens of headers are underscores (Idempotency-Key is idempotency_key).
"""

import json
from functools import partial
from typing import Any, Iterator, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen


class APIError(Exception):
    """An error that the node answers."""

    def __init__(self, status: int, details: dict):
        super().__init__(f"{details.get('code')}: {details.get('message')}")
        self.status = status
        self.code = details.get("code", "")
        self.field = details.get("field", "")
        self.reason = details.get("reason", "")
        self.hint = details.get("hint", "")
        self.retry_after = details.get("retry_after")
        self.request_id = details.get("request_id", "")


class Event(NamedTuple):
    """A server-sent event. A stream that begins with last_event_id=event.id continues after it."""

    id: str
    name: str
    data: Any


class Client:
    """The operations of a node. document is its OpenAPI document; the client reads it from the node if there is none."""

    def __init__(self, url: str, token: str, document: dict | None = None, timeout: float = 90):
        self._url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._operations = operations_of(document or self._document())

    def __getattr__(self, name: str):
        if name.startswith("_") or name not in self._operations:
            raise AttributeError(f"the API has no operation {name!r}")
        return partial(self._call, self._operations[name])

    def __dir__(self):
        return list(self._operations)

    def _document(self) -> dict:
        with self._open(Request(self._url + "/api/v1/openapi.json")) as answer:
            return json.load(answer)

    def _call(self, operation: "Operation", body: Any = None, **arguments: Any) -> Any:
        """Send a request. Return the JSON of the answer, the bytes of a file, or the events of a stream."""
        answer = self._open(operation.request(self._url, body, arguments))
        kind = answer.headers.get_content_type()
        if kind == "text/event-stream":
            return events_of(answer)
        with answer:
            data = answer.read()
        if kind == "application/json":
            return json.loads(data)
        return data

    def _open(self, request: Request):
        request.add_header("Authorization", "Bearer " + self._token)
        try:
            return urlopen(request, timeout=self._timeout)
        except HTTPError as error:
            with error:
                raise APIError(error.code, error_of(error.read())) from None


class Operation(NamedTuple):
    """One operation of the document."""

    name: str
    verb: str
    path: str
    parameters: dict[str, dict]  # by the names of the arguments
    takes_body: bool

    def request(self, url: str, body: Any, arguments: dict[str, Any]) -> Request:
        """Return the request for arguments. Raise TypeError if they are not those of the operation."""
        unknown = arguments.keys() - self.parameters.keys()
        if unknown or (body is not None and not self.takes_body):
            raise TypeError(f"{self.name} does not take {', '.join(sorted(unknown)) or 'a body'}")
        missing = [name for name, p in self.parameters.items() if p.get("required") and name not in arguments]
        if missing:
            raise TypeError(f"{self.name} needs {', '.join(missing)}")
        placed: dict[str, list[tuple[str, Any]]] = {"path": [], "query": [], "header": []}
        for name, value in arguments.items():
            if value is not None:
                placed[self.parameters[name]["in"]].append((self.parameters[name]["name"], value))
        path = self.path
        for name, value in placed["path"]:
            path = path.replace("{" + name + "}", quote(str(value), safe="@"))
        query = urlencode([(name, text(value)) for name, value in placed["query"]], doseq=True)
        request = Request(url + path + ("?" + query if query else ""), method=self.verb)
        for name, value in placed["header"]:
            request.add_header(name, str(value))
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        return request


def operations_of(document: dict) -> dict[str, Operation]:
    """Return the operations of a document by their ids."""
    operations = {}
    for path, verbs in document["paths"].items():
        for verb, described in verbs.items():
            parameters = {p["name"].lower().replace("-", "_"): p for p in described.get("parameters", [])}
            name = described["operationId"]
            operations[name] = Operation(name, verb.upper(), path, parameters, "requestBody" in described)
    return operations


def text(value: Any) -> Any:
    """Return the value of a parameter of the query as text, or as a list of texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return [text(item) for item in value]
    return str(value)


def events_of(answer) -> Iterator[Event]:
    """Yield the events of a stream until it ends."""
    last, name, data = "", "message", []
    with answer:
        for line in (raw.decode().rstrip("\r\n") for raw in answer):
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "id":
                last = value
            elif key == "event":
                name = value
            elif key == "data":
                data.append(value)
            elif not line:
                if data:
                    yield Event(last, name, json.loads("\n".join(data)))
                name, data = "message", []


def error_of(body: bytes) -> dict:
    """Return the details of the body of an error, also of one that something between here and the node has sent."""
    try:
        return json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return {"code": "", "message": body.decode(errors="replace")[:200]}
