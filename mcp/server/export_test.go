package server

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// OfferedTools is the list of all tools, as it is before it becomes that of a client.
func (s *Server) OfferedTools() *mcp.ListToolsResult {
	list := &mcp.ListToolsResult{}
	for _, name := range s.cfg.Catalogue.Names() {
		if t, ok := s.cfg.Catalogue.Get(name); ok && s.cfg.Offer.Show.shows(t) {
			list.Tools = append(list.Tools, toolOf(t))
		}
	}
	return list
}

// ListOf is the list of tools of a client, encoded.
func (s *Server) ListOf(profile string, who Identity, list *mcp.ListToolsResult) []byte {
	note := func(name string) string {
		if name == noteProfile {
			return profile
		}
		return ""
	}
	return mustJSON(s.tools.listTools(client{who: who, caps: &mcp.ClientCapabilities{}, note: note}, list))
}

// ListenSessionOf returns a session of a listening client: note records that a subscription has started, closing frees the ids.
func ListenSessionOf(ids ...string) (note func(id string), closing func()) {
	f := &feed{subscriber: &subscriber{}, name: "n", stop: func() {}, active: map[string]bool{}, ever: map[string]bool{}}
	e := &listenSession{feed: f}
	for _, id := range ids {
		key := listenerKey{"ada", id}
		if f.subscriber.listeners.register(key, f.name, f) == nil {
			e.keys = append(e.keys, key)
		}
	}
	return func(id string) { f.refresh(id, true) }, e.close
}

// Metered returns functions that count requests of identities, and that return the number of known identities.
func Metered() (enter func(who string) (leave func(), ok bool), known func() int) {
	m := &meter{share: func(who string) string { return who }}
	return m.acquire, func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.byID)
	}
}
