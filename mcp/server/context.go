package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// metaSession names the session of a call of 2026-07-28.
const metaSession = "orch/session"

const (
	// sessionLife is how long a session lasts at most.
	sessionLife = 7 * 24 * time.Hour
	// maxSessionKey is the most bytes of a client's name for its session.
	maxSessionKey = 128
	// maxContexts is the most cached sessions. A session that is not cached is read from the log.
	maxContexts = 10_000
	// maxGenerations is the most successive sessions of one client.
	maxGenerations = 100_000
)

// contexts caches the durable sessions of clients. A durable session is a task in the log (package orchestrator), created by
// the first call of a client. Its id is derived from its owner and the session key, so that it is found again after a restart.
type contexts struct {
	// process is the key of the stdio client: each process serves one.
	process string
	mu      sync.Mutex
	cache   map[string]*sessionUse
}

// sessionUse is a cached session.
type sessionUse struct {
	id events.TaskID
	// generation is the number of earlier sessions with the same key, which have ended.
	generation int
	// used is the time of the last call.
	used time.Time
}

func newContexts() contexts {
	return contexts{process: rand.Text(), cache: map[string]*sessionUse{}}
}

// sessionKey returns the key of a client's session, "" if its calls belong to no session. idle is set if the client never
// announces the end of the session, which then ends when it is idle.
func (st *sessionTasks) sessionKey(c client) (key string, idle bool, err error) {
	named, given := c.sessionName, c.sessionName != ""
	switch {
	case len(named) > maxSessionKey:
		return "", false, fault.New(fault.ValidationError, "must have at most %d bytes", maxSessionKey).WithField(metaSession)
	case given:
		return "named " + named, true, nil
	case c.sessionless || c.session == nil:
		return "", false, nil
	case c.note(noteHTTP) == "" && c.session.ID() == "":
		return "process " + st.contexts.process, false, nil
	case c.modern:
		return "client " + c.program, true, nil
	default:
		return "session " + c.session.ID(), false, nil
	}
}

// contextOf returns the id of the session of a client, "" if its calls belong to no session. It creates a session if necessary.
func (st *sessionTasks) contextOf(ctx context.Context, c client) (events.TaskID, error) {
	key, idle, err := st.sessionKey(c)
	if err != nil || key == "" {
		return "", err
	}
	cacheKey := c.who.Name + " " + key
	use := st.contexts.get(cacheKey)
	now := st.cfg.Now()
	if idle && use.id != "" && now.Sub(use.used) > st.cfg.Limits.SessionTimeout {
		st.endContext(ctx, use.id, c.who.Name)
		use.id, use.generation = "", use.generation+1
	}
	for use.id == "" {
		if use.id, err = st.openContext(ctx, c, cacheKey, use.generation); err != nil {
			return "", err
		}
		if use.id == "" {
			use.generation++
		}
	}
	use.used = now
	st.contexts.set(cacheKey, use)
	return use.id, nil
}

// openContext creates or finds a session; "" if that session has ended.
func (st *sessionTasks) openContext(ctx context.Context, c client, cacheKey string, generation int) (events.TaskID, error) {
	if generation > maxGenerations {
		return "", fault.New(fault.QuotaExceeded, "the client has had more than %d sessions", maxGenerations).WithField(metaSession)
	}
	id := events.KeyedTaskID(c.who.Name, "session "+strconv.Itoa(generation)+" "+st.cfg.Root+" "+cacheKey)
	r := api.SubmitRequest{
		ID: id, Session: id, Plan: api.SessionPlan(sessionLife), Actor: c.who.Name,
		Name: api.SessionName + c.program,
	}
	if c.who.Role.decides() {
		r.Writes = st.cfg.Consent.Writes
	}
	if err := st.tools.restrict(c, &r); err != nil {
		return "", err
	}
	r.Tools = nil // the session calls no tools
	got, err := st.cfg.API.Submit(ctx, r)
	switch {
	case fault.Has(err, fault.Gone), err == nil && got.State.Terminal():
		return "", nil
	case err != nil:
		return "", err
	}
	return got.ID, nil
}

// sessionOver reports whether a call was refused because its session has ended, and removes that session from the cache.
func (st *sessionTasks) sessionOver(c client, err error) bool {
	if !fault.Has(err, fault.Conflict) || fault.From(err).Reason != api.ReasonSessionOver {
		return false
	}
	if key, _, err := st.sessionKey(c); err == nil {
		st.contexts.remove(c.who.Name + " " + key)
	}
	return true
}

// toolAskPeople requests an approval, which belongs to the session of the call.
const toolAskPeople = "APPROVAL_REQUEST"

// endContext ends a session permanently.
func (st *sessionTasks) endContext(ctx context.Context, id events.TaskID, who string) {
	_, _ = st.cfg.API.Signal(ctx, api.SignalRequest{ID: id, Name: api.SessionEnd, Actor: who})
}

// endSession ends the session of a client of 2025-11-25, after the client has closed it.
func (st *sessionTasks) endSession(ctx context.Context, id, owner string) {
	if use := st.contexts.get(owner + " session " + id); use.id != "" {
		st.endContext(ctx, use.id, owner)
		st.contexts.remove(owner + " session " + id)
	}
}

// endProcess ends the session of the stdio client, after the client has disconnected.
func (st *sessionTasks) endProcess() {
	cacheKey := st.cfg.Local.Name + " process " + st.contexts.process
	if use := st.contexts.get(cacheKey); use.id != "" {
		ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
		defer stop()
		st.endContext(ctx, use.id, st.cfg.Local.Name)
	}
}

func (a *contexts) get(cacheKey string) sessionUse {
	a.mu.Lock()
	defer a.mu.Unlock()
	if use := a.cache[cacheKey]; use != nil {
		return *use
	}
	return sessionUse{}
}

func (a *contexts) set(cacheKey string, use sessionUse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cache[cacheKey] == nil && len(a.cache) >= maxContexts {
		clear(a.cache) // the sessions are still in the log
	}
	a.cache[cacheKey] = &use
}

func (a *contexts) remove(cacheKey string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.cache, cacheKey)
}

// programOf returns the name of a client's program, reduced to characters that the name of a task may contain.
func programOf(info *mcp.Implementation) string {
	if info == nil {
		return "client"
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, info.Name)
	if name = strings.Trim(name[:min(len(name), 64)], "-"); name == "" {
		return "client"
	}
	return name
}

// readSession reads the session and the program from a request of 2026-07-28.
func (c *client) readSession(meta mcp.Meta) {
	c.sessionName, _ = meta[metaSession].(string)
	if meta[mcp.MetaKeyClientInfo] == nil {
		return
	}
	var info mcp.Implementation
	if raw := mustJSON(meta[mcp.MetaKeyClientInfo]); json.Unmarshal(raw, &info) == nil && info.Name != "" {
		c.program = programOf(&info)
	}
}

// sessionTasks manages the tasks that represent client sessions in the log. The calls of a session belong to its task.
type sessionTasks struct {
	*core

	tools    *toolView
	contexts contexts
}
