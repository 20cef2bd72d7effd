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
	// Servers configures the registry. New replaces its fields Notify and Logger.
	Servers registry.Config
	// Catalogue receives the tools.
	Catalogue *tools.Catalogue
	// Connect is when the servers are connected.
	Connect Connect
	// OnChange is called for changes of servers, one at a time and in order, before the catalogue changes. It must return
	// soon.
	OnChange func(context.Context, registry.Change)
	// CallEnded reports whether a call has ended in the log, so that nobody waits for its outcome. If it is nil, a call that no
	// attempt waits for ends after orphanTimeout.
	CallEnded func(context.Context, Call) bool
	// Now is the clock. Default: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Connect is when servers are connected.
type Connect int

// The times to connect.
const (
	// AtOnce connects the servers in the background, from Start.
	AtOnce Connect = iota
	// OnCall connects the servers at the first call of one of their tools, or in Start if an enabled server has no recorded
	// tools. It is for processes that run one task.
	OnCall
	// Never connects no server: only the recorded tools are offered. It is for processes that make no calls.
	Never
)

// Gateway maintains the tools of external MCP servers in a catalogue. It is safe for concurrent use.
type Gateway struct {
	cfg     Config
	servers *registry.Registry
	records Records
	log     *slog.Logger
	// life is cancelled when the gateway closes.
	life  context.Context //nolint:containedctx // calls outlive the attempts that start them
	end   context.CancelFunc
	group sync.WaitGroup

	pendingCalls pendingCalls
	features     features
	begin        sync.Once
	// started is closed when Registry.Init has returned: each server is connected, or has had its time to connect.
	started chan struct{}
	// wake wakes run.
	wake chan struct{}

	notifyMu sync.Mutex // guards changed, and serializes Config.OnChange
	// changed are the servers that may have changed their tools, resources or prompts.
	changed map[string]bool
	// offering is locked while the catalogue changes; it guards refused and watcher.
	offering sync.Mutex
	// watcher watches the records; may be nil.
	watcher *fsnotify.Watcher
	mu      sync.Mutex // guards present
	// present are the tools in the catalogue, by server.
	present map[string][]*outsideTool
	// refused maps tools that cannot be used to the reason, so that each is logged once.
	refused map[string]string
}

// New returns a gateway. It does no I/O. Errors are those of registry.New.
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
		started: make(chan struct{}), wake: make(chan struct{}, 1), changed: map[string]bool{},
		features:     features{byServer: map[string]*serverFeatures{}, replaced: make(chan struct{})},
		pendingCalls: pendingCalls{byKey: map[string]*pendingCall{}}, present: map[string][]*outsideTool{}, refused: map[string]string{},
	}
	g.life, g.end = context.WithCancel(context.Background())
	cfg.Servers.Notify, cfg.Servers.Logger = g.notify, cfg.Logger
	var err error
	g.servers, err = registry.New(cfg.Servers)
	return g, err
}

// Start adds the recorded tools to the catalogue, and connects the servers as Config.Connect sets. With OnCall, if an enabled
// server has no record, its tools are unknown: Start then connects all servers and waits for them.
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
	unrecorded := slices.ContainsFunc(slices.Collect(maps.Keys(defined)), func(name string) bool {
		return defined[name].Enabled && !slices.Contains(known, name)
	})
	switch {
	case g.cfg.Connect == AtOnce:
		g.connect()
	case g.cfg.Connect == OnCall && unrecorded:
		return g.Ready(ctx)
	}
	return nil
}

// connect starts to connect the servers, unless it was called before.
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

// Ready connects the servers, and waits until each is connected or has had its time to connect.
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
	g.begin.Do(func() { close(g.started) }) // from now on connect does nothing
	g.end()
	err := g.servers.Close(ctx, closeGrace)
	g.group.Wait()
	return err
}

// closeGrace is how long calls may take to end after their contexts have ended.
const closeGrace = time.Second

// Servers returns the registry behind the gateway.
func (g *Gateway) Servers() *registry.Registry { return g.servers }

// notify is called by the registry for each change. It passes changes of definitions and of enabled servers to Config.OnChange, and
// records servers with other changes for run.
func (g *Gateway) notify(c registry.Change) {
	defer signal(g.wake)
	g.notifyMu.Lock()
	defer g.notifyMu.Unlock()
	switch c.Kind {
	case registry.ToolsChanged, registry.ResourcesChanged, registry.PromptsChanged:
		g.changed[c.Server] = true
	case registry.ToolLoaded, registry.ToolRemoved, registry.ToolEnabled, registry.ToolDisabled, registry.DefinitionAccepted:
		g.cfg.OnChange(g.life, c)
	}
}

// run updates the catalogue and the features after changes of servers, until the gateway closes.
func (g *Gateway) run() {
	for {
		select {
		case <-g.life.Done():
			return
		case <-g.wake:
		}
		g.notifyMu.Lock()
		changed := g.changed
		g.changed = map[string]bool{}
		g.notifyMu.Unlock()
		if defined, ok := g.refresh(); ok {
			g.followFeatures(defined, changed)
		}
	}
}

// refresh updates the catalogue. It logs an error, and then returns false.
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

// update updates the catalogue to the present definitions and records, and returns the defined servers.
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

// offer replaces the tools in the catalogue by those of the defined servers. It first records the tools that the servers offer now.
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

// same reports whether the catalogue already contains exactly these tools.
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

// recordOf returns the record of a server, updated with the tools that the server offers now. After a recordsChange it writes the
// record only if more tools must be accepted by a person. Otherwise two processes to which a server offers different tools would
// overwrite each other's records forever.
func (g *Gateway) recordOf(server string, d registry.Defined, why updateCause) serverRecord {
	if d.Tools == nil { // the server is not connected
		return g.records.read(server)
	}
	offered := definitionsOf(d.Tools)
	rec, err := g.records.update(server, func(rec *serverRecord) bool {
		before, whole := rec.countPending(), !rec.broken // a person may be editing a broken record
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

// tool returns the tool of a record. The tool is unlisted and refused if its definition is not accepted or its server is disabled.
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

// leaveOut logs the reason why a tool cannot be used, unless it has logged the same reason before.
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

// Accept is Records.Accept; it also updates the catalogue at once, and reports each accepted definition as a change.
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
