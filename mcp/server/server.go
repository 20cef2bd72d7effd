// Package server is the MCP server of orch, the interface of a node for MCP clients. Every tool call of a client becomes a task
// in the log, so that the call is checked by the policy, durable and replayable. The methods tasks/* show the tasks in the log.
//
// One server supports both generations of the protocol: 2025-11-25 with sessions, and 2026-07-28 without. Over HTTP a router
// (versionrouter.go) passes each request to the handler of its generation; over stdio one connection carries both. Nothing
// that a client relies on is only in memory: the submission of a task is in the log before the client gets its handle, and a
// session that a restart has ended is reopened with the same id.
//
// The server's own tools (ownTool, such as orch_submit) manage tasks for clients that do not support the methods tasks/*. All
// other tools are those of the catalogue. Resources and prompts of external MCP servers, which the node is a client of (package
// registry), are offered too.
package server

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
)

// Server is the MCP server of one node. Each of its parts has one job; a part uses only the parts before it.
type Server struct {
	*core

	agents        *agentList
	tools         *toolView
	answers       *presenter
	plans         *planChecks
	clients       *connections
	subscriptions *subscriber
	sessions      *sessionTasks
	questions     *questioner
	relays        *relays
	calls         *caller
	taskTools     *taskTools
	outside       *outsideView
	resources     *resourceView
	completions   *completer
	prompts       *prompter
	agentPrompts  *agentPrompts
	tasks         *taskMethods

	fresh  sessionIDs
	meter  meter
	offers offers
	// memory limits the memory of large answers.
	memory *answerMemory
}

// New returns a server. It returns VALIDATION_ERROR if the configuration is incomplete.
func New(cfg Config) (*Server, error) {
	if cfg.API == nil || cfg.Catalogue == nil {
		return nil, fault.New(fault.ValidationError, "a server needs an API and a catalogue")
	}
	cfg = cfg.withDefaults()
	s := wire(newCore(cfg))
	replaced := s.cfg.Catalogue.Replaced()
	s.agents.update()
	s.taskTools.addOwnTools()
	s.resources.addResources()
	s.plans.addPlanSchema()
	s.resources.addInbox()
	s.prompts.addPrompts()
	s.agentPrompts.offer()
	if err := s.tasks.addTaskMethods(); err != nil {
		return nil, err
	}
	if cfg.Stores.Outside != nil {
		changed := cfg.Stores.Outside.FeaturesReplaced()
		s.outside.offerOutside()
		s.background(func(ctx context.Context) { s.outside.followOutside(ctx, changed) })
	}
	if cfg.Hooks.Extend != nil {
		cfg.Hooks.Extend(s.sdk)
	}
	s.sdk.AddReceivingMiddleware(s.route)
	s.background(s.clients.removeIdle)
	s.background(func(ctx context.Context) { s.followTools(ctx, replaced) })
	return s, nil
}

// Close ends the open sessions and all background work. Clients can continue their HTTP sessions at a new server.
func (s *Server) Close() {
	s.sessions.endProcess()
	s.stop()
	for session := range s.sdk.Sessions() {
		_ = session.Close()
	}
	s.group.Wait()
}

func (s *Server) options() *mcp.ServerOptions {
	return &mcp.ServerOptions{
		Instructions: s.tools.instructions(s.cfg.Offer.Profile),
		Logger:       s.sdkLogger,
		PageSize:     pageSize,
		Capabilities: capabilities(),
		GetSessionID: s.fresh.id,
		SetCacheable: cacheable,

		SubscribeHandler: s.resources.subscribe, UnsubscribeHandler: s.resources.unsubscribe, CompletionHandler: s.completions.complete,
		RootsListChangedHandler: s.clients.newRoots,
	}
}

// capabilities returns the capabilities that the SDK does not derive from the registered features (S2-006).
func capabilities() *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{
		Tools:   &mcp.ToolCapabilities{ListChanged: true},
		Prompts: &mcp.PromptCapabilities{ListChanged: true},
		Logging: &mcp.LoggingCapabilities{},
	}
	c.AddExtension(tasksExtension, nil)
	c.AddExtension(eventsExtension, nil)
	return c
}

// cacheable marks answers as private to a client: their content depends on the identity.
func cacheable(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
	c.TTLMs, c.CacheScope = 0, "private"
}

// wire creates the parts of a server and connects them.
func wire(co *core) *Server {
	s := &Server{core: co, memory: newAnswerMemory(), meter: meter{share: co.cfg.share}}
	s.memory.share = co.cfg.share
	s.agents = &agentList{core: co}
	s.tools = &toolView{core: co, agents: s.agents}
	s.answers = &presenter{co, s.tools}
	s.plans = &planChecks{co, s.tools, s.answers}
	s.clients = &connections{core: co}
	s.subscriptions = &subscriber{core: co, clients: s.clients}
	s.sessions = &sessionTasks{co, s.tools, newContexts()}
	s.questions = &questioner{co, s.answers, s.tools, newSealer(co.cfg.Key)}
	s.relays = &relays{co, s.clients, s.questions}
	s.calls = &caller{co, s.tools, s.answers, s.clients, s.subscriptions, s.sessions, s.questions, s.relays}
	s.taskTools = &taskTools{co, s.tools, s.answers, s.plans, s.clients, s.questions, s.relays}
	s.tools.own = s.taskTools.ownTools()
	s.outside = &outsideView{core: co}
	s.resources = &resourceView{core: co, tools: s.tools, clients: s.clients, outside: s.outside}
	s.completions = &completer{co, s.tools, s.outside}
	s.prompts = &prompter{co}
	s.agentPrompts = &agentPrompts{core: co, tools: s.tools, agents: s.agents}
	s.tasks = &taskMethods{co, s.answers, s.questions, s.relays}
	co.sdk = mcp.NewServer(&mcp.Implementation{Name: "orch", Title: "orch", Version: co.cfg.Version}, s.options())
	return s
}
