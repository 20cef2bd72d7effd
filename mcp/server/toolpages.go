package server

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxToolPages is the most bytes of memory for encoded pages of tools/list. Pages beyond it are encoded again for each request.
const MaxToolPages = 4 << 20

// toolPages caches the encoded pages of tools/list, so that clients that see the same tools share one encoding. A page is
// encoded again after one of its tools or the catalogue has changed.
type toolPages struct {
	mu    sync.Mutex
	byKey map[pageKey]toolPage
	size  int
	// forgotten counts the calls of forget.
	forgotten int
}

// pageKey is the cache key of a page: everything about the request that its content depends on. Two clients with equal keys see
// the same tools.
type pageKey struct {
	profile string
	// show is the selection of the identity (Selection.key); agent is set for a registered agent.
	show  string
	agent bool
	// modern is the generation of the protocol.
	modern bool
	// first and next are the name of the first tool and the cursor of the next page. Both are empty in a profile that has its own
	// descriptions, because its list has only one page.
	first, next string
}

// toolPage is an encoded page, and the state of which it was made.
type toolPage struct {
	// tools are the definitions of the page before the selection, catalogue is Catalogue.Replaced at that time.
	tools     []*mcp.Tool
	catalogue <-chan struct{}
	// forgotten is toolPages.forgotten at that time, so that a page of old descriptions is not used after they were forgotten.
	forgotten int
	// encoded is the page as a JSON array on one line.
	encoded json.RawMessage
}

// is reports whether two pages were made of the same state.
func (p toolPage) is(other toolPage) bool {
	return p.catalogue == other.catalogue && p.forgotten == other.forgotten && slices.Equal(p.tools, other.tools)
}

// cost returns the approximate memory of a page.
func (p toolPage) cost() int {
	const overhead, pointer = 512, 8
	return len(p.encoded) + len(p.tools)*pointer + overhead
}

// get returns the page for a key and a state. If it is not cached, get encodes it. The result must not be changed.
func (t *toolPages) get(key pageKey, state toolPage, encode func() []json.RawMessage) json.RawMessage {
	t.mu.Lock()
	cached, ok := t.byKey[key]
	state.forgotten = t.forgotten
	t.mu.Unlock()
	if ok && cached.is(state) {
		return cached.encoded
	}
	state.encoded = oneLine(jsonList(encode()))
	t.put(key, state)
	return state.encoded
}

// put caches a page. If there is no room, it removes arbitrary other pages.
func (t *toolPages) put(key pageKey, page toolPage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey == nil {
		t.byKey = map[pageKey]toolPage{}
	}
	t.remove(key)
	if page.cost() > MaxToolPages {
		return
	}
	for other := range t.byKey {
		if t.size+page.cost() <= MaxToolPages {
			break
		}
		t.remove(other)
	}
	t.byKey[key] = page
	t.size += page.cost()
}

// remove removes a page. t.mu must be held.
func (t *toolPages) remove(key pageKey) {
	if page, ok := t.byKey[key]; ok {
		t.size -= page.cost()
		delete(t.byKey, key)
	}
}

// forget removes all pages.
func (t *toolPages) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKey, t.size = nil, 0
	t.forgotten++
}

// key returns a text that is equal only for equal selections.
func (s Selection) key() string {
	if s.all() {
		return ""
	}
	text := strconv.AppendBool(nil, s.ReadOnly)
	for _, pattern := range s.Tools {
		text = strconv.AppendQuote(text, pattern)
	}
	return string(text)
}
