package node

import "context"

// startStep is one of the steps by which a node comes up. What undoes it is in host.ends.
type startStep struct {
	name string
	// needs names steps before it whose results it uses, later those after it whose results it uses once they are there: what it
	// starts asks for them when the node is up.
	needs, later []string
	run          func(*Node, context.Context) error
}

// startSteps are taken in this order. Clients take the node for ready from "commands" on: what else they may ask for is there by then.
func startSteps() []startStep {
	is := func(names ...string) []string { return names }
	return []startStep{
		{"server", nil, nil, (*Node).openBus},
		{"lease", is("server"), nil, (*Node).elect},
		{"store", is("server", "lease"), nil, (*Node).openStore},
		{"databases", is("store"), nil, (*Node).openDatabases},
		{"requests", is("lease"), nil, (*Node).openRequests},
		{"messages", is("store"), is("owner"), (*Node).openMessages},
		{"executor", is("databases", "requests", "messages"), is("owner"), (*Node).openExecutor},
		{"notices", is("executor"), nil, (*Node).openNotices},
		{"statistics", is("store"), nil, (*Node).openStats},
		{"owner", is("notices", "statistics"), is("tokens"), (*Node).startOwner},
		{"node info", is("executor"), nil, (*Node).publishInfo},
		{"tokens", is("store"), nil, (*Node).startTokens},
		{"agents", is("owner", "tokens"), nil, (*Node).startAgents},
		{"agent dispatcher", is("agents"), nil, (*Node).serveAgentDispatcher},
		{"MCP servers", is("executor"), nil, (*Node).serveServers},
		{"message requests", is("owner"), nil, (*Node).serveMessages},
		{"database requests", is("databases", "requests"), nil, (*Node).serveDatabases},
		{"refusals", is("owner"), nil, (*Node).startRefusals},
		{"alone", is("requests"), nil, (*Node).serveAlone},
		{"commands", is("agents", "agent dispatcher", "MCP servers", "message requests", "database requests", "refusals", "alone"), nil, (*Node).serve},
		{"take over", is("commands"), nil, (*Node).takeOver},
		{"worker", is("commands"), nil, (*Node).startWorker},
		{"face", is("commands"), nil, (*Node).startFace},
		{"journal", is("owner"), nil, (*Node).startJournal},
		{"chores", is("owner"), nil, (*Node).startChores},
		{"tidying", is("owner"), nil, (*Node).startTidying},
		{"end of waits", is("messages"), nil, (*Node).endWaits},
		{"retention", is("owner"), nil, (*Node).startRetention},
		{"yielding", is("worker"), nil, (*Node).startYielding},
	}
}
