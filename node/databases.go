package node

import (
	"context"
	"strings"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/docstore"
	"github.com/orch-dev/orch/tools/firebase/embedded"
	"github.com/orch-dev/orch/tools/firebase/realtime"
)

// databaseHost hosts the databases of the firebase tools.
type databaseHost struct {
	*host

	credentials *credentials
	databases   firebase.Config
	// hub stores the messages that sessions with subscriptions have not received yet.
	hub *firebase.Hub
	// sessions serves requests about sessions with subscriptions.
	sessions localMethods
}

// openDatabases prepares the databases of the firebase tools. The embedded ones are opened on first use.
func (db *databaseHost) openDatabases(context.Context) error {
	if err := db.openRemote(); err != nil {
		return err
	}
	cfg := firebase.HubConfig{Realtime: db.cfg.Realtime, Firestore: db.cfg.Firestore, Logger: db.cfg.logger()}
	if cfg.Realtime == nil {
		cfg.Realtime = db.embedded(embedded.NewRealtime, bus.RealtimeJournal)
	}
	if cfg.Firestore == nil {
		cfg.Firestore = db.embedded(embedded.NewFirestore, bus.FirestoreJournal)
	}
	hub := firebase.NewHub(cfg)
	db.onStop(func(context.Context) error { hub.Close(); return nil })
	db.databases = firebase.Config{Realtime: cfg.Realtime, Firestore: cfg.Firestore, Subscriptions: hub}
	db.hub, db.sessions = hub, sessionMethods(hub)
	return nil
}

// openRemote prepares the Google databases that the settings name.
func (db *databaseHost) openRemote() error {
	net, err := db.cfg.network()
	if err != nil {
		return err
	}
	secrets, err := db.cfg.secrets()
	if err != nil {
		return err
	}
	f := db.cfg.Tools.Firebase
	if f.Realtime() && db.cfg.Realtime == nil {
		db.cfg.Realtime, err = realtime.Open(realtime.Config{Net: net, URL: f.RealtimeURL, Token: secrets["firebase_realtime_token"], Log: db.cfg.logger()})
		if err != nil {
			return err
		}
	}
	if !f.Firestore() || db.cfg.Firestore != nil {
		return nil
	}
	docs, err := docstore.Open(docstore.Config{
		Net: net, Project: f.FirestoreProject, Database: f.FirestoreDatabase, Credentials: secrets["firestore_credentials"], Emulator: f.FirestoreEmulator,
	})
	if err != nil {
		return err
	}
	db.onStop(func(context.Context) error { return docs.Close() })
	db.cfg.Firestore = docs
	return nil
}

func (db *databaseHost) embedded(open func(embedded.Config) *embedded.Database, name string) firebase.Backend {
	d := open(embedded.Config{
		Journal: func(ctx context.Context) (embedded.Journal, error) { return db.store.OpenJournal(ctx, name) },
		Shared:  db.server == nil, // other nodes may use the same server
		Logger:  db.cfg.logger(),
	})
	db.onStop(func(context.Context) error { d.Close(); return nil })
	return d
}

// The requests of remote workers about databases, and of MCP servers in other processes about sessions.
type (
	readRequest struct {
		Database firebase.Database `json:"database"`
		Path     string            `json:"path"`
		Query    firebase.Query    `json:"query"`
	}
	writeRequest struct {
		Database firebase.Database `json:"database"`
		Path     string            `json:"path"`
		Write    firebase.Write    `json:"write"`
	}
	sessionRequest struct {
		Session string `json:"session"`
		// Arrived is the number of the newest message that the client has received.
		Arrived uint64 `json:"arrived,omitempty"`
		// Single is set for a session that has one subscription only.
		Single bool `json:"single,omitempty"`
	}
)

// serveDatabases serves the databases to remote workers, and the sessions to MCP servers in other processes.
func (db *databaseHost) serveDatabases(context.Context) error {
	for prefix, methods := range map[string]localMethods{bus.DatabasePrefix: databaseMethods(db.databases), bus.SessionPrefix: db.sessions} {
		end, err := rpc.Serve(db.requests, prefix, methods, rpc.EndpointConfig{Logger: db.cfg.logger()})
		if err != nil {
			return err
		}
		db.onStop(closeSoon(end))
	}
	return nil
}

func databaseMethods(c firebase.Config) localMethods {
	backend := func(name firebase.Database) firebase.Backend {
		if name == firebase.Firestore {
			return c.Firestore
		}
		return c.Realtime
	}
	return localMethods{
		"read": rpc.Handle(func(ctx context.Context, in readRequest) (firebase.Snapshot, error) {
			return backend(in.Database).Read(ctx, in.Path, in.Query)
		}),
		"write": rpc.Handle(func(ctx context.Context, in writeRequest) (firebase.Written, error) {
			return backend(in.Database).Write(ctx, in.Path, in.Write)
		}),
	}
}

// longPoll is how long a request for messages waits if there are none.
const longPoll = 20 * time.Second

func sessionMethods(hub *firebase.Hub) localMethods {
	return localMethods{
		"open": rpc.Handle(func(_ context.Context, in sessionRequest) (struct{}, error) {
			hub.OpenSession(in.Session, in.Single)
			return struct{}{}, nil
		}),
		"close": rpc.Handle(func(_ context.Context, in sessionRequest) (struct{}, error) {
			hub.CloseSession(in.Session)
			return struct{}{}, nil
		}),
		"messages": rpc.Handle(func(ctx context.Context, in sessionRequest) ([]firebase.Message, error) {
			return hub.Next(ctx, in.Session, in.Arrived, longPoll)
		}),
	}
}

// remoteDatabases returns databases for a remote worker. They forward each request to the node.
func remoteDatabases(c *bus.Conn) firebase.Config {
	return firebase.Config{
		Realtime: remoteDatabase{c, firebase.Realtime}, Firestore: remoteDatabase{c, firebase.Firestore},
	}
}

type remoteDatabase struct {
	conn *bus.Conn
	name firebase.Database
}

// Read implements firebase.Backend.
func (r remoteDatabase) Read(ctx context.Context, path string, q firebase.Query) (s firebase.Snapshot, err error) {
	err = untilServed(ctx, true, func(ctx context.Context) error {
		return rpc.Call(ctx, r.conn, bus.DatabasePrefix+".read", readRequest{r.name, path, q}, &s)
	})
	return s, err
}

// Write implements firebase.Backend. It returns IN_DOUBT if the answer was lost.
func (r remoteDatabase) Write(ctx context.Context, path string, w firebase.Write) (done firebase.Written, err error) {
	err = untilServed(ctx, false, func(ctx context.Context) error {
		return rpc.Call(ctx, r.conn, bus.DatabasePrefix+".write", writeRequest{r.name, path, w}, &done)
	})
	return done, inDoubt(err)
}

// Watch implements firebase.Backend. It always fails: only the node holds subscriptions.
func (remoteDatabase) Watch(context.Context, string, firebase.EventType) (firebase.Watching, error) {
	return firebase.Watching{}, fault.New(fault.ToolUnavailable, "a worker watches no database").WithHint("the node does, for its sessions")
}

// Subscriptions implements server.Subscriptions with the databases of a node, in this process or elsewhere.
type Subscriptions struct{ node Asker }

var _ server.Subscriptions = Subscriptions{}

// NewSubscriptions returns the subscriptions of a node.
func NewSubscriptions(node Asker) Subscriptions { return Subscriptions{node} }

// OpenSession implements server.Subscriptions.
func (s Subscriptions) OpenSession(ctx context.Context, session string, single bool) error {
	return s.ask(ctx, "open", sessionRequest{Session: session, Single: single}, &struct{}{})
}

// CloseSession implements server.Subscriptions.
func (s Subscriptions) CloseSession(ctx context.Context, session string) error {
	return s.ask(ctx, "close", sessionRequest{Session: session}, &struct{}{})
}

// Messages implements server.Subscriptions.
func (s Subscriptions) Messages(ctx context.Context, session string, arrived uint64) ([]server.SubscriptionMessage, error) {
	var got []firebase.Message
	if err := s.ask(ctx, "messages", sessionRequest{Session: session, Arrived: arrived}, &got); err != nil {
		return nil, err
	}
	messages := make([]server.SubscriptionMessage, 0, len(got))
	for _, m := range got {
		messages = append(messages, notification(m))
	}
	return messages, nil
}

// Ended implements server.Subscriptions.
func (Subscriptions) Ended(subscription string) server.SubscriptionMessage {
	return notification(firebase.Ended(subscription))
}

func notification(m firebase.Message) server.SubscriptionMessage {
	return server.SubscriptionMessage{No: m.No, Subscription: m.ID, Method: "firebase.event", Params: m.Params, Last: m.Last}
}

func (s Subscriptions) ask(ctx context.Context, method string, in, out any) error {
	return s.node.Ask(ctx, bus.SessionPrefix+"."+method, in, out)
}

// askSessions serves a request about sessions, without a network in between. It returns false for any other request. It does
// not copy messages, because thousands of sessions may have unread ones.
func (db *databaseHost) askSessions(ctx context.Context, method string, in, out any) (bool, error) {
	name, ok := strings.CutPrefix(method, bus.SessionPrefix+".")
	if !ok {
		return false, nil
	}
	if reply, ok := out.(*[]firebase.Message); ok && name == "messages" {
		request, _ := in.(sessionRequest)
		all, err := db.hub.Next(ctx, request.Session, request.Arrived, longPoll)
		*reply = all
		return true, err
	}
	return true, db.sessions.Ask(ctx, name, in, out)
}
