// A Realtime Database for tests. The data, the order of children, queries, server values and the keys of push
// are those of Google's own engine, the client library that keeps a database in memory while it is offline. What
// is written here is the face of the server: its REST protocol and its stream of events.
//
//   realtime.mjs      listens on a free port of loopback, prints {"port": N}, and ends with its standard input
//
// Each ?ns=NAME is a database of its own, empty at first.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { initializeApp } from "@firebase/app";
import * as engine from "@firebase/database";

const maxWrite = 16 << 20;

// Refusal is an answer that is an error.
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const databases = new Map();

// open returns the database of a name. The engine is told that it knows everything, namely nothing, and a listener
// at the root keeps it knowing.
function open(name) {
  if (!databases.has(name)) {
    const app = initializeApp({ databaseURL: `http://127.0.0.1:1/?ns=${name}` }, name);
    const store = engine.getDatabase(app);
    engine.goOffline(store);
    written(engine.set(engine.ref(store), null));
    engine.onValue(engine.ref(store), () => {});
    databases.set(name, { store, listeners: new Set() });
  }
  return databases.get(name);
}

// written takes the promise of a write, which never settles while the engine is offline.
function written(promise) {
  promise.catch?.(() => {});
}

// read returns what the engine has for a reference or a query: offline it answers at once.
function read(target) {
  let found;
  engine.onValue(target, (snapshot) => { found = snapshot }, { onlyOnce: true });
  if (found === undefined) throw new Error("the engine does not know what is there");
  return found;
}

const versionOf = (target) => createHash("sha256").update(JSON.stringify(read(target).exportVal())).digest("base64");

function parse(text, message) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(400, message);
  }
}

const filters = ["limitToFirst", "limitToLast", "startAt", "startAfter", "endAt", "endBefore", "equalTo"];

// queried returns the query of the parameters, or the reference when there is none.
function queried(target, parameters) {
  const given = filters.filter((name) => parameters.has(name));
  if (!parameters.has("orderBy")) {
    if (given.length > 0) throw new Refusal(400, "orderBy must be defined when other query parameters are defined");
    return target;
  }
  const by = parse(parameters.get("orderBy"), "orderBy must be a valid JSON encoded path");
  const orders = { $key: engine.orderByKey, $value: engine.orderByValue, $priority: engine.orderByPriority };
  const constraints = given.map((name) => {
    const value = parse(parameters.get(name), `Constraint ${name} must be valid JSON`);
    if (name.startsWith("limit") && !(Number.isInteger(value) && value > 0)) throw new Refusal(400, `${name} must be a positive integer`);
    return engine[name](value);
  });
  return checked(() => engine.query(target, by in orders ? orders[by]() : engine.orderByChild(by), ...constraints));
}

// checked turns what the engine refuses into a bad request.
function checked(step) {
  try {
    return step();
  } catch (refused) {
    throw new Refusal(400, refused.message);
  }
}

// keysOf reads the path of a request.
function keysOf(pathname) {
  if (!pathname.endsWith(".json")) throw new Refusal(404, "Not Found");
  return pathname.slice(0, -".json".length).split("/").filter((key) => key !== "").map(decodeURIComponent);
}

async function bodyOf(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > maxWrite * 2) throw new Refusal(413, "Data to write exceeds the maximum size that can be modified with a single request.");
    parts.push(part);
  }
  return parse(Buffer.concat(parts).toString(), "Invalid data; couldn't parse JSON object, array, or value.");
}

const begins = (keys, start) => start.every((key, i) => keys[i] === key);

// tell sends every listener what a write concerns. A write above what is listened to is a put of all of that; a write
// that changes nothing is told all the same, as the protocol allows.
function tell(database, kind, keys, data) {
  for (const listener of database.listeners) {
    if (begins(keys, listener.keys)) {
      listener.send(kind, { path: "/" + keys.slice(listener.keys.length).join("/"), data });
    } else if (begins(listener.keys, keys)) {
      listener.send("put", { path: "/", data: read(listener.target).val() });
    }
  }
}

function listen(database, keys, target, request, response) {
  response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache" });
  const send = (event, data) => response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  send("put", { path: "/", data: read(target).val() });
  const listener = { keys, target, send };
  database.listeners.add(listener);
  const alive = setInterval(send, 30_000, "keep-alive", null);
  request.on("close", () => {
    clearInterval(alive);
    database.listeners.delete(listener);
  });
}

// get answers a read.
function get(target, parameters) {
  if (parameters.get("shallow") === "true") {
    if (parameters.has("orderBy")) throw new Refusal(400, "Mixing 'shallow' and querying parameters is not supported");
    const value = read(target).val();
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.keys(value).filter((key) => value[key] !== null).map((key) => [key, true]));
  }
  const found = read(queried(target, parameters));
  return parameters.get("format") === "export" ? found.exportVal() : found.val();
}

// change makes a write and returns what its answer repeats.
function change(database, method, keys, target, data) {
  const at = (path) => engine.child(target, path);
  switch (method) {
    case "DELETE":
    case "PUT":
      checked(() => written(engine.set(target, data)));
      tell(database, "put", keys, read(target).val());
      return data;
    case "POST": {
      const child = checked(() => engine.push(target, data));
      written(child);
      tell(database, "put", [...keys, child.key], read(at(child.key)).val());
      return { name: child.key };
    }
    case "PATCH": {
      if (data === null || typeof data !== "object" || Array.isArray(data)) throw new Refusal(400, "Invalid data; couldn't parse JSON object.");
      checked(() => written(engine.update(target, data)));
      const now = Object.fromEntries(Object.keys(data).map((path) => [path.replace(/^\//, ""), read(at(path)).val()]));
      tell(database, "patch", keys, now);
      return data;
    }
    default:
      throw new Refusal(405, "Method Not Allowed");
  }
}

async function serve(request, response) {
  const url = new URL(request.url, "http://loopback");
  const parameters = url.searchParams;
  const database = open(parameters.get("ns") ?? "default");
  const keys = keysOf(url.pathname);
  const target = checked(() => engine.ref(database.store, "/" + keys.join("/")));
  const headers = () => (request.headers["x-firebase-etag"] === "true" ? { ETag: versionOf(target) } : {});
  if (request.method === "GET") {
    if (request.headers.accept?.includes("text/event-stream")) return listen(database, keys, target, request, response);
    return reply(response, 200, get(target, parameters), headers());
  }
  const data = request.method === "DELETE" ? null : await bodyOf(request);
  // From here on nothing waits, so that nobody writes between the condition and the write.
  const condition = request.headers["if-match"];
  if (condition !== undefined && ["POST", "PATCH"].includes(request.method)) throw new Refusal(400, `${request.method} does not support conditions`);
  if (condition !== undefined && condition !== versionOf(target)) {
    return reply(response, 412, read(target).val(), { ETag: versionOf(target) });
  }
  const said = change(database, request.method, keys, target, data);
  if (parameters.get("print") === "silent") return reply(response, 204, undefined, headers());
  return reply(response, 200, said, headers());
}

function reply(response, status, data, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json; charset=utf-8", ...headers });
  response.end(data === undefined ? undefined : JSON.stringify(data));
}

const server = createServer((request, response) => {
  serve(request, response).catch((refused) => reply(response, refused.status ?? 500, { error: refused.message }));
});
server.listen({ host: "127.0.0.1", port: 0, backlog: 1024 }, () => console.log(JSON.stringify({ port: server.address().port })));
process.stdin.on("end", () => process.exit(0)).resume();
