package node

import "context"

// startStep is one step of starting a node. The function that undoes it is in host.cleanups.
type startStep struct {
	name string
	// needs lists the earlier steps that this step depends on. later lists the later steps that the started part depends on once
	// the node runs.
	needs, later []string
	run          func(*Node, context.Context) error
}

// startSteps returns the steps in the order of the start. The step "commands" makes the node ready for clients, so everything
// that clients may request precedes it.
func startSteps() []startStep {
	is := func(names ...string) []string { return names }
	return []startStep{
		{"server", nil, nil, (*Node).openBus},
		{"lease", is("server"), nil, (*Node).acquireLease},
		{"store", is("server", "lease"), nil, (*Node).openStore},
		{"databases", is("store"), nil, (*Node).openDatabases},
		{"requests", is("lease"), nil, (*Node).openRequests},
		{"messages", is("store"), is("owner"), (*Node).openMessages},
		{"executor", is("databases", "requests", "messages"), is("owner"), (*Node).openExecutor},
		{"audit stream", is("store", "executor"), nil, (*Node).openAudit},
		{"notices", is("executor"), nil, (*Node).openNotices},
		{"statistics", is("store"), nil, (*Node).openStats},
		{"clock", nil, nil, (*Node).setClock},
		{"lists", is("store", "clock"), is("owner"), (*Node).openLists},
		{"holds", is("store"), nil, (*Node).readHolds},
		{"feeds", is("lease"), nil, (*Node).openFeeds},
		{"traces", is("store"), nil, (*Node).startTraces},
		{"owner", is("audit stream", "notices", "statistics", "lists", "clock", "holds", "feeds", "traces"), is("tokens"), (*Node).startOwner},
		{"schedules", is("owner"), nil, (*Node).readSchedules},
		{"hooks", is("owner"), nil, (*Node).readHooks},
		{"destinations", is("owner"), nil, (*Node).readDestinations},
		{"node info", is("executor"), nil, (*Node).publishInfo},
		{"tokens", is("store", "audit stream", "executor"), nil, (*Node).startTokens},
		{"agents", is("owner", "tokens"), nil, (*Node).startAgents},
		{"agent dispatcher", is("agents"), nil, (*Node).serveAgentDispatcher},
		{"MCP servers", is("executor"), nil, (*Node).serveServers},
		{"message requests", is("owner"), nil, (*Node).serveMessages},
		{"database requests", is("databases", "requests"), nil, (*Node).serveDatabases},
		{"refusals", is("owner"), nil, (*Node).startRefusals},
		{"alone", is("requests"), nil, (*Node).serveAlone},
		{"links", is("requests", "tokens", "executor"), nil, (*Node).serveLinks},
		{"commands", is("schedules", "hooks", "destinations", "agents", "agent dispatcher", "MCP servers", "message requests", "database requests", "refusals", "alone", "links"), nil, (*Node).serve},
		{"take over", is("commands"), nil, (*Node).takeOver},
		{"worker", is("commands"), nil, (*Node).startWorker},
		{"firings", is("schedules", "worker"), nil, (*Node).runSchedules},
		{"messages of streams", is("hooks", "commands"), nil, (*Node).runHooks},
		{"deliveries", is("destinations", "commands"), nil, (*Node).runDeliveries},
		{"export of traces", is("traces", "commands"), nil, (*Node).runTraces},
		{"face", is("commands"), nil, (*Node).startFace},
		{"journal", is("owner"), nil, (*Node).startJournal},
		{"chores", is("owner"), nil, (*Node).startChores},
		{"tidying", is("owner"), nil, (*Node).startTidying},
		{"end of waits", is("messages"), nil, (*Node).endWaits},
		{"retention", is("owner"), nil, (*Node).startRetention},
		{"retention of acts", is("audit stream", "owner"), nil, (*Node).startAuditRetention},
		{"yielding", is("worker"), nil, (*Node).startYielding},
	}
}
