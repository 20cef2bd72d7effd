package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/tools"
)

// Config configures a Gateway. Servers and Catalogue are required.
type Config struct {
	// Servers configures the registry; Notify is replaced.
	Servers registry.Config
	// Catalogue receives the tools.
	Catalogue *tools.Catalogue
	// Connect is when the servers are connected.
	Connect Connect
	// OnChange is called for changes of servers, one at a time and in order, before the catalogue changes. It must return
	// soon. Default: none.
	OnChange func(context.Context, registry.Change)
	// CallEnded reports whether a call has ended, so that nobody waits for its outcome. Default: unknown; such calls
	// end after the time limit of questions.
	CallEnded func(context.Context, Call) bool
	// Now is the clock. Default: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Connect is when servers are connected.
type Connect int

// The times.
const (
	// AtOnce connects in the background from the start.
	AtOnce Connect = iota
	// OnCall connects with the first call of one of their tools, or at the start if a server has no recorded
	// tools: for processes that live for one task.
	OnCall
	// Never connects to no server and uses only the records: for processes that call nothing.
	Never
)

// Gateway maintains the tools of external MCP servers in a catalogue. It is safe for concurrent use.
type Gateway struct {
	cfg     Config
	servers *registry.Registry
	records Records
	log     *slog.Logger
	// life ends with the gateway.
	life  context.Context //nolint:containedctx // calls outlive the attempts that start them
	end   context.CancelFunc
	group sync.WaitGroup

	pendingCalls pendingCalls
	features     features
	begin        sync.Once
	// started is closed when the servers had their time to connect.
	started chan struct{}
	// wake wakes run; stirred are the servers whose offer may have changed.
	wake chan struct{}

	notifyMu sync.Mutex // guards stirred, and serializes Config.OnChange
	stirred  map[string]bool
	// offering serializes changes of the catalogue; it guards refused and watcher.
	offering sync.Mutex
	// watcher watches the records; may be nil.
	watcher *fsnotify.Watcher
	mu      sync.Mutex // guards present
	// present are the tools of each defined server that are in the catalogue.
	present map[string][]*outsideTool
	// refused are tools that were left out, with the reason, so that each is logged once.
	refused map[string]string
}

// New returns a gateway. It does no I/O. VALIDATION_ERROR as for registry.New.
func New(cfg Config) (*Gateway, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(context.Context, registry.Change) {}
	}
	g := &Gateway{
		cfg: cfg, log: cfg.Logger, records: OpenRecords(cfg.Servers.Home, cfg.Logger),
		started: make(chan struct{}), wake: make(chan struct{}, 1), stirred: map[string]bool{},
		features:     features{byServer: map[string]*serverFeatures{}, replaced: make(chan struct{})},
		pendingCalls: pendingCalls{byKey: map[string]*pendingCall{}}, present: map[string][]*outsideTool{}, refused: map[string]string{},
	}
	g.life, g.end = context.WithCancel(context.Background())
	cfg.Servers.Notify, cfg.Servers.Logger = g.notify, cfg.Logger
	var err error
	g.servers, err = registry.New(cfg.Servers)
	return g, err
}

// Start adds the recorded tools to the catalogue, and connects to the servers as configured. With OnCall it waits for
// servers without a record, whose tools are unknown.
func (g *Gateway) Start(ctx context.Context) error {
	defined, err := g.update(localChange)
	if err != nil {
		return err
	}
	g.group.Go(g.run)
	if g.cfg.CallEnded != nil {
		g.group.Go(g.sweep)
	}
	known := g.records.servers()
	fresh := slices.ContainsFunc(slices.Collect(maps.Keys(defined)), func(name string) bool {
		return defined[name].Enabled && !slices.Contains(known, name)
	})
	switch {
	case g.cfg.Connect == AtOnce:
		g.connect()
	case g.cfg.Connect == OnCall && fresh:
		return g.Ready(ctx)
	}
	return nil
}

// connect starts to connect to the servers, once.
func (g *Gateway) connect() {
	g.begin.Do(func() {
		g.watchRecords()
		g.group.Go(func() {
			defer close(g.started)
			n, err := g.servers.Init(g.life)
			if err != nil && !errors.Is(err, registry.ErrNoConfigDirs) {
				g.log.Error("mcp_servers_not_started", slog.Any("error", err), slog.Any("cause", errors.Unwrap(err)))
			}
			g.log.Info("mcp_servers_started", slog.Int("connected", n))
			g.refresh()
		})
	})
}

// Ready connects to the servers, and waits until they had their time to connect.
func (g *Gateway) Ready(ctx context.Context) error {
	g.connect()
	select {
	case <-g.started:
		return nil
	case <-ctx.Done():
		return fault.From(context.Cause(ctx))
	}
}

// Close ends all calls and connections. The caller must stop its calls first.
func (g *Gateway) Close(ctx context.Context) error {
	g.begin.Do(func() { close(g.started) }) // connecting cannot start any more
	g.end()
	err := g.servers.Close(ctx, closeGrace)
	g.group.Wait()
	return err
}

// closeGrace is how long calls may take to end after their contexts have ended.
const closeGrace = time.Second

// Servers returns the registry behind the gateway.
func (g *Gateway) Servers() *registry.Registry { return g.servers }

// notify is called by the registry for changes, and does not block. Changed offers are not passed to Config.OnChange.
func (g *Gateway) notify(c registry.Change) {
	defer signal(g.wake)
	g.notifyMu.Lock()
	defer g.notifyMu.Unlock()
	switch c.Kind {
	case registry.ToolsChanged, registry.ResourcesChanged, registry.PromptsChanged:
		g.stirred[c.Server] = true
	case registry.ToolLoaded, registry.ToolRemoved, registry.ToolEnabled, registry.ToolDisabled, registry.DefinitionAccepted:
		g.cfg.OnChange(g.life, c)
	}
}

// run handles changes of servers.
func (g *Gateway) run() {
	for {
		select {
		case <-g.life.Done():
			return
		case <-g.wake:
		}
		g.notifyMu.Lock()
		stirred := g.stirred
		g.stirred = map[string]bool{}
		g.notifyMu.Unlock()
		if defined, ok := g.refresh(); ok {
			g.followFeatures(defined, stirred)
		}
	}
}

// refresh updates the catalogue. It returns false if that failed.
func (g *Gateway) refresh() (map[string]registry.Defined, bool) {
	defined, err := g.update(localChange)
	if err != nil {
		g.log.Error("mcp_tools_not_offered", slog.Any("error", err))
	}
	return defined, err == nil
}

// updateCause is the cause of an update of the catalogue.
type updateCause int

const (
	// localChange is any change by this process or by a server.
	localChange updateCause = iota
	// recordsChange is a change of the records, possibly by another process.
	recordsChange
)

// update offers the tools of the servers that are defined now.
func (g *Gateway) update(why updateCause) (map[string]registry.Defined, error) {
	g.offering.Lock()
	defer g.offering.Unlock()
	defined, err := g.servers.Defined()
	if err != nil {
		return nil, err
	}
	g.watchDir() // before the records are read, so that no change is missed
	defer g.watchDir()
	return defined, g.offer(defined, why)
}

// offer adds the tools of the defined servers to the catalogue. It first records what the servers offer now.
func (g *Gateway) offer(defined map[string]registry.Defined, why updateCause) error {
	present := map[string][]*outsideTool{}
	var all []tools.Tool
	used := map[string]bool{}
	for _, server := range slices.Sorted(maps.Keys(defined)) {
		for _, t := range g.toolsOf(server, defined[server], why) {
			name := t.Spec().Name
			if used[name] {
				g.leaveOut(server, t.Tool, "another tool becomes "+name)
				continue
			}
			used[name] = true
			present[server] = append(present[server], t)
			all = append(all, t)
		}
	}
	if g.same(present) {
		return nil
	}
	g.mu.Lock()
	g.present = present
	g.mu.Unlock()
	return g.cfg.Catalogue.Offer(all)
}

// same reports whether the catalogue already has these tools.
func (g *Gateway) same(present map[string][]*outsideTool) bool {
	return maps.EqualFunc(present, g.present, func(a, b []*outsideTool) bool {
		return slices.EqualFunc(a, b, func(a, b *outsideTool) bool {
			return a.Tool == b.Tool && a.pinned == b.pinned && reflect.DeepEqual(a.Entry.Spec, b.Entry.Spec) && reflect.DeepEqual(a.Refused, b.Refused)
		})
	})
}

// toolsOf returns the tools of a server for the catalogue.
func (g *Gateway) toolsOf(server string, d registry.Defined, why updateCause) []*outsideTool {
	rec := g.recordOf(server, d, why)
	var list []*outsideTool
	for _, name := range slices.Sorted(maps.Keys(rec.Tools)) {
		p := rec.Tools[name]
		if p.Gone || !d.Offers(name) {
			continue
		}
		t, err := g.tool(server, name, p, d)
		if err != nil {
			g.leaveOut(server, name, fault.From(err).Message)
			continue
		}
		list = append(list, t)
	}
	return list
}

// recordOf returns the record of a server, updated with its present offer. After a recordsChange it writes only changes that
// a person must see: otherwise two processes with different offers of a server would overwrite each other's records forever.
func (g *Gateway) recordOf(server string, d registry.Defined, why updateCause) serverRecord {
	if d.Tools == nil { // it is not connected
		return g.records.read(server)
	}
	offered := definitionsOf(d.Tools)
	rec, err := g.records.update(server, func(rec *serverRecord) bool {
		before, whole := rec.countPending(), !rec.broken // a broken record may be being edited
		completed := rec.complete(d.Tools)
		changed := rec.observe(offered, g.cfg.Now().UTC()) || completed && len(rec.Tools) > 0
		return changed && (why == localChange || whole && rec.countPending() > before)
	})
	if err != nil {
		g.log.Error("mcp_definitions_unrecorded", slog.String("server", server), slog.Any("error", err), slog.Any("cause", errors.Unwrap(err)))
		return serverRecord{}
	}
	return rec
}

// tool returns the tool of a record. A blocked tool, or one of a disabled server, is not listed.
func (g *Gateway) tool(server, name string, p *toolRecord, d registry.Defined) (*outsideTool, error) {
	e, err := entryOf(server, p.current(), tools.Effect(d.Effect(name)))
	if err != nil {
		return nil, err
	}
	status, why := p.status()
	switch {
	case !d.Enabled:
		e.Refused = fault.Wrap(fault.ToolDisabled, registry.ErrToolDisabled, "the MCP server "+server+" is switched off").
			WithHint("orch mcp enable %s", server)
	case status != Accepted:
		g.leaveOut(server, name, why)
		e.Refused = fault.New(fault.ToolDisabled, "%s is blocked: %s", e.Spec.Name, why).WithReason(strings.ToUpper("definition_"+string(status))).
			WithHint("look at it, then accept it: orch mcp accept %s %s", server, name)
	}
	e.Spec.Unlisted = e.Refused != nil
	t := newOutsideTool(e, g.call)
	t.pinned = digest(p.current())
	return t, nil
}

// leaveOut logs why a tool cannot be used, once.
func (g *Gateway) leaveOut(server, tool, why string) {
	key := server + "/" + tool
	if g.refused[key] == why {
		return
	}
	g.refused[key] = why
	g.log.Warn("mcp_tool_left_out", slog.String("server", server), slog.String("tool", escape(tool, maxTitle)), slog.String("reason", why))
}

// Entries returns the tools in the catalogue, including those that are refused at present.
func (g *Gateway) Entries() []Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []Entry{}
	for _, server := range slices.Sorted(maps.Keys(g.present)) {
		for _, t := range g.present[server] {
			list = append(list, t.Entry)
		}
	}
	return list
}

// Definitions returns the definitions of the tools of a server, or of all servers for "".
func (g *Gateway) Definitions(server string) []Definition { return g.records.Definitions(server) }

// Accept is Records.Accept, and permits calls at once.
func (g *Gateway) Accept(server string, wanted map[string]string, by string) ([]Definition, error) {
	accepted, err := g.records.Accept(server, wanted, by, g.cfg.Now().UTC())
	if err == nil {
		g.log.Info("mcp_definitions_accepted", slog.String("server", server), slog.Any("tools", slices.Sorted(maps.Keys(wanted))), slog.String("by", by))
		g.refresh()
		for _, d := range accepted {
			g.notify(registry.Change{Kind: registry.DefinitionAccepted, Server: server, Tool: d.Tool, By: by})
		}
	}
	return accepted, err
}
