package registry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/mcp/oauth"
)

// Config configures a Registry.
type Config struct {
	// Dir is the directory of the project, Home the home directory of the user. Both must be absolute. Definitions are in
	// .orch/mcp below each of them, and in the directories of ORCH_MCP_PATH. The state is in .orch/state below Home.
	Dir, Home string
	// Workspace is the value of ${workspaceFolder} in a definition. Default: Dir.
	Workspace string
	// Getenv reads variables of the environment. Default: os.Getenv.
	Getenv func(string) string
	// Off disables all servers (mcp.enabled = false), Still disables watching files (mcp.hotReload = false).
	Off, Still bool
	// Handshake is how long Init, Reload and Enable wait for servers to connect. A slower server is Degraded until it connects.
	// Handshake is also the timeout of pings. Default: 5 s.
	Handshake time.Duration
	// Ping is the interval at which an idle server is pinged. Default: 30 s.
	Ping time.Duration
	// Schema replaces the schema of definitions. Default: Schema().
	Schema []byte
	// Notify is called for each change; the changes of one server are in order. It must return soon and must not call the
	// registry.
	Notify func(Change)
	// Logger logs changes and problems. Default: nothing is logged.
	Logger *slog.Logger
}

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of changes. The S1 rules define the first four.
const (
	ToolLoaded   ChangeKind = "mcp_tool_loaded"
	ToolRemoved  ChangeKind = "mcp_tool_removed"
	ToolEnabled  ChangeKind = "mcp_tool_enabled"
	ToolDisabled ChangeKind = "mcp_tool_disabled"
	// DefinitionAccepted means that a person has accepted a changed definition of a tool. Only package gateway reports it.
	DefinitionAccepted ChangeKind = "mcp_definition_accepted"
	// ToolsChanged means that the result of Defined may have changed.
	ToolsChanged ChangeKind = "mcp_tools_changed"
	// ResourcesChanged and PromptsChanged mean that the lists of the server's resources or prompts have changed.
	ResourcesChanged ChangeKind = "mcp_resources_changed"
	PromptsChanged   ChangeKind = "mcp_prompts_changed"
)

// Change is a change of a server.
type Change struct {
	Kind   ChangeKind
	Server string
	// Tool is set with DefinitionAccepted.
	Tool string
	// By is the actor who requested the change, such as user:ada; may be empty.
	By string
}

// actorKey is the context key of the actor.
type actorKey struct{}

// AsActor returns a context for requests of an actor, such as user:ada. Change.By names the actor.
func AsActor(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, actorKey{}, who)
}

func actorOf(ctx context.Context) string {
	who, _ := ctx.Value(actorKey{}).(string)
	return who
}

// defaultHandshake is how long Init waits for servers.
const defaultHandshake = 5 * time.Second

// maxDials is the most servers being connected concurrently.
const maxDials = 16

// Registry is an MCPRegistry. It is safe for concurrent use.
type Registry struct {
	dir, home string
	workspace string
	getenv    func(string) string
	off       bool
	still     bool
	bound     time.Duration
	ping      time.Duration
	schema    []byte
	notify    func(Change)
	log       *slog.Logger
	state     stateFile
	logins    *oauth.Logins
	now       func() time.Time
	services  *proc.Services
	slots     chan struct{}

	// admin is held while the set of servers changes.
	admin   sync.Mutex
	checker *checker
	unwatch func()

	// mu guards the fields below. It is not held while waiting.
	mu      sync.RWMutex
	life    registryState
	servers map[string]*server
	// retiring are connections that get no new calls and wait for their last calls; unclosed counts those that are not closed.
	retiring map[*activeSession]bool
	unclosed sync.WaitGroup
	// abortCalls is closed when Close no longer waits for calls.
	abortCalls chan struct{}
}

// registryState is the lifecycle state of a registry.
type registryState int

const (
	stateNew registryState = iota
	stateRunning
	stateClosed
)

// New returns a registry. It does nothing before Init. New returns VALIDATION_ERROR for directories that are not absolute.
func New(c Config) (*Registry, error) {
	if !filepath.IsAbs(c.Dir) || !filepath.IsAbs(c.Home) {
		return nil, fault.New(fault.ValidationError, "the directories of the project and of the user must be absolute").WithField("Dir")
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Notify == nil {
		c.Notify = func(Change) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Schema == nil {
		c.Schema = Schema()
	}
	return &Registry{
		dir: c.Dir, home: c.Home, workspace: cmp.Or(c.Workspace, c.Dir), getenv: c.Getenv, off: c.Off, still: c.Still, schema: c.Schema, notify: c.Notify, log: c.Logger,
		bound: cmp.Or(c.Handshake, defaultHandshake), ping: cmp.Or(c.Ping, healthInterval), state: stateFile{filepath.Join(c.Home, ".orch", "state", "mcp-tools.json")},
		logins: oauth.New(oauth.Config{Dir: loginDir(c.Home), Logger: c.Logger}),
		now:    time.Now, services: proc.NewServices(c.Logger), slots: make(chan struct{}, maxDials),
		unwatch: func() {}, servers: map[string]*server{}, retiring: map[*activeSession]bool{}, abortCalls: make(chan struct{}),
	}, nil
}

// Init implements MCPRegistry. After the first call it only counts the connected servers.
func (r *Registry) Init(ctx context.Context) (int, error) {
	r.admin.Lock()
	defer r.admin.Unlock()
	switch r.currentState() {
	case stateRunning:
		return r.countConnected(r.all()), nil
	case stateClosed:
		return 0, closed()
	case stateNew:
	}
	var err error
	if r.checker, err = newChecker(r.schema); err != nil {
		return 0, err
	}
	dirs, err := Directories(r.dir, r.home, r.getenv)
	if err != nil {
		return 0, err
	}
	if r.off {
		r.setState(stateRunning)
		return 0, nil
	}
	all := r.checker.scan(dirs, r.log)
	if all.dirs > 0 {
		if err := r.state.writable(); err != nil {
			return 0, err
		}
	}
	r.setState(stateRunning)
	if !r.still {
		r.unwatch = r.watchFiles(ctx, dirs)
	}
	touched := r.apply(ctx, all)
	r.await(ctx, touched)
	if all.dirs == 0 {
		return 0, fault.Wrap(fault.NotFound, ErrNoConfigDirs, "there is no directory with definitions of MCP servers").
			WithHint("make one, and put definitions into it: %s", dirs[0])
	}
	return r.countConnected(touched), nil
}

// Reload implements MCPRegistry.
func (r *Registry) Reload(ctx context.Context) (int, error) {
	r.admin.Lock()
	defer r.admin.Unlock()
	if err := r.checkUsable(); err != nil || r.off {
		return 0, err
	}
	dirs, err := Directories(r.dir, r.home, r.getenv)
	if err != nil {
		return 0, err
	}
	touched := r.apply(ctx, r.checker.scan(dirs, r.log))
	r.await(ctx, touched)
	return r.countConnected(touched), nil
}

// apply updates the servers to a scan of the directories, and returns the new and the changed servers. r.admin must be held.
func (r *Registry) apply(ctx context.Context, all scanResult) []*server {
	state := r.state.load(r.log)
	var touched []*server
	for _, s := range r.all() {
		if _, ok := all.servers[s.name]; !ok && !all.broken[s.def.source] {
			r.remove(s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all.servers)) {
		def := r.withLoginDigest(all.servers[name])
		enabled := !def.Disabled
		if a, ok := state[name]; ok {
			enabled = a.Enabled
		}
		s, known := r.server(name)
		switch {
		case !known:
			touched = append(touched, r.add(ctx, def, enabled))
			continue
		case all.broken[s.def.source] && s.def.source != def.source: // a definition with precedence is being edited
			continue
		case s.def.digest != def.digest || s.def.source != def.source:
			touched = append(touched, s)
			r.redefine(ctx, s, def)
		}
		if s.enabled != enabled {
			r.switchServer(ctx, s, enabled)
		}
	}
	return touched
}

// add adds the server of a definition.
func (r *Registry) add(ctx context.Context, def definition, enabled bool) *server {
	s := newServer(r, def, enabled)
	r.mu.Lock()
	r.servers[s.name] = s
	r.mu.Unlock()
	if enabled {
		s.start(ctx)
	}
	r.publish(Change{Kind: ToolLoaded, Server: s.name})
	return s
}

// redefine changes the definition of a server. Calls use the old connection until the new one is open.
func (r *Registry) redefine(ctx context.Context, s *server, def definition) {
	s.stopSupervisor()
	s.mu.Lock()
	s.def, s.limits = def, newLimits(def.MCPConfig)
	enabled := s.enabled
	s.mu.Unlock()
	if enabled {
		s.start(ctx)
	}
	r.publish(Change{Kind: ToolLoaded, Server: s.name})
}

// remove removes a server whose definition was deleted.
func (r *Registry) remove(s *server) {
	s.stopSupervisor()
	r.mu.Lock()
	delete(r.servers, s.name)
	r.mu.Unlock()
	s.mu.Lock()
	former := s.live
	s.live, s.removed = nil, true
	s.wake()
	s.mu.Unlock()
	r.retire(s, former)
	r.publish(Change{Kind: ToolRemoved, Server: s.name})
}

// switchServer enables or disables a server. r.admin must be held.
func (r *Registry) switchServer(ctx context.Context, s *server, enabled bool) {
	s.stopSupervisor()
	s.mu.Lock()
	s.enabled = enabled
	former := s.live
	s.live = nil
	s.wake()
	s.mu.Unlock()
	r.retire(s, former)
	if enabled {
		s.start(ctx)
		r.publish(Change{Kind: ToolEnabled, Server: s.name, By: actorOf(ctx)})
		return
	}
	r.publish(Change{Kind: ToolDisabled, Server: s.name, By: actorOf(ctx)})
}

// Enable implements MCPRegistry.
func (r *Registry) Enable(ctx context.Context, name string) error {
	return r.setEnabled(ctx, name, true)
}

// Disable implements MCPRegistry.
func (r *Registry) Disable(ctx context.Context, name string) error {
	return r.setEnabled(ctx, name, false)
}

func (r *Registry) setEnabled(ctx context.Context, name string, enabled bool) error {
	r.admin.Lock()
	defer r.admin.Unlock()
	if err := r.checkUsable(); err != nil {
		return err
	}
	s, ok := r.server(name)
	if !ok {
		return notFound(name)
	}
	if err := r.state.set(name, enabled, r.log); err != nil {
		return err
	}
	if s.enabled != enabled {
		r.switchServer(ctx, s, enabled)
		r.await(ctx, []*server{s})
	}
	return nil
}

// await waits for the first attempt to connect each server, no longer than the handshake timeout.
func (r *Registry) await(ctx context.Context, servers []*server) {
	timer := time.NewTimer(r.bound)
	defer timer.Stop()
	for _, s := range servers {
		if s.stop == nil {
			continue
		}
		select {
		case <-s.first:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// List implements MCPRegistry.
func (r *Registry) List(context.Context) ([]MCPTool, error) {
	if r.currentState() == stateNew {
		return nil, uninitialized()
	}
	list := []MCPTool{}
	for _, s := range r.all() {
		list = append(list, s.snapshot())
	}
	return list, nil
}

// Get implements MCPRegistry.
func (r *Registry) Get(_ context.Context, name string) (MCPTool, error) {
	if r.currentState() == stateNew {
		return MCPTool{}, uninitialized()
	}
	s, ok := r.server(name)
	if !ok {
		return MCPTool{}, notFound(name)
	}
	return s.snapshot(), nil
}

// Validate implements MCPRegistry. It also works before Init.
func (r *Registry) Validate(_ context.Context, paths ...string) ([]SchemaError, error) {
	c, err := newChecker(r.schema)
	if err != nil {
		return nil, err
	}
	problems := []SchemaError{}
	var unread []error
	for _, path := range paths {
		d, err := readDocument(path)
		if err != nil {
			unread = append(unread, err)
			continue
		}
		_, found := c.load(d)
		problems = append(problems, found...)
	}
	return problems, errors.Join(unread...)
}

// checkUsable returns an error if the registry is not initialized, or is closed.
func (r *Registry) checkUsable() error {
	switch r.currentState() {
	case stateNew:
		return uninitialized()
	case stateClosed:
		return closed()
	case stateRunning:
	}
	return nil
}

func (r *Registry) currentState() registryState {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.life
}

func (r *Registry) setState(l registryState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.life = l
}

func (r *Registry) server(name string) (*server, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.servers[name]
	return s, ok
}

// all returns the servers, sorted by name.
func (r *Registry) all() []*server {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.servers), func(a, b *server) int { return cmp.Compare(a.name, b.name) })
}

func (r *Registry) countConnected(servers []*server) int {
	n := 0
	for _, s := range servers {
		if s.connected() {
			n++
		}
	}
	return n
}

// publish logs a change and passes it to Config.Notify.
func (r *Registry) publish(c Change) {
	switch c.Kind {
	case ToolLoaded, ToolRemoved, ToolEnabled, ToolDisabled:
		r.log.Info(string(c.Kind), slog.String("server", c.Server), slog.String("by", c.By)) //nolint:sloglint // the kinds are constants
	case DefinitionAccepted, ToolsChanged, ResourcesChanged, PromptsChanged:
	}
	r.notify(c)
}
