package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools"
)

// Offered contains the tools that the external MCP servers of a node offer.
type Offered struct {
	// Version is a digest of the tools. It is the same for the same tools, also after a restart of the node.
	Version string
	Tools   []gateway.Entry
}

// OfferedFeatures contains the resources, templates and prompts that the external MCP servers of a node offer.
type OfferedFeatures struct {
	// Version is a digest of the features. It is the same for the same features, also after a restart of the node.
	Version  string
	Features []gateway.Feature
}

type (
	offerRequest struct {
		// After is the version that the client already has. The node answers as soon as it has another version, or after Wait.
		After string        `json:"after,omitempty"`
		Wait  time.Duration `json:"wait,omitempty"`
		// From is the number of items that earlier answers contained. The node skips them.
		From int `json:"from,omitempty"`
	}
	offerReply struct {
		Version string            `json:"version"`
		Items   []json.RawMessage `json:"items,omitempty"`
		// Next is the value of From for the next request, 0 if this is the last part.
		Next int `json:"next,omitempty"`
	}
)

// Offered returns the tools of the external MCP servers. If known is still the current version, it waits until the tools change.
// If they do not change within wait, it returns known and no tools.
func (a Admin) Offered(ctx context.Context, known string, wait time.Duration) (Offered, error) {
	version, all, err := fetchAll[gateway.Entry](ctx, a.node, "catalogue", known, wait)
	return Offered{version, all}, err
}

// OfferedFeatures returns the resources, templates and prompts of the connected external MCP servers. It waits for changes like
// Offered.
func (a Admin) OfferedFeatures(ctx context.Context, known string, wait time.Duration) (OfferedFeatures, error) {
	version, all, err := fetchAll[gateway.Feature](ctx, a.node, "features", known, wait)
	return OfferedFeatures{version, all}, err
}

// fetchAll requests all items of a method, in as many requests as necessary. It starts again if the version changes meanwhile.
func fetchAll[T any](ctx context.Context, node Asker, method, known string, wait time.Duration) (version string, all []T, err error) {
	ctx, stop := context.WithTimeout(ctx, wait+rpc.CallWithin)
	defer stop()
	request := offerRequest{After: known, Wait: wait}
	for {
		var reply offerReply
		if err := node.Ask(ctx, bus.ServersPrefix+"."+method, request, &reply); err != nil {
			return "", nil, err
		}
		if request.From > 0 && reply.Version != version { // it has changed between two parts
			version, all, request = "", nil, offerRequest{}
			continue
		}
		version = reply.Version
		for _, raw := range reply.Items {
			var item T
			if err := json.Unmarshal(raw, &item); err != nil {
				return "", nil, fault.Wrap(fault.Internal, err, "what the node offers cannot be read").WithHint("use the same version of orch on both sides")
			}
			all = append(all, item)
		}
		if reply.Next == 0 {
			return version, all, nil
		}
		request = offerRequest{From: reply.Next}
	}
}

// Mirrors returns tools for a process without a node, which can list them and check calls of them. Only the node can run them.
func Mirrors(entries []gateway.Entry) ([]tools.Tool, error) {
	all := make([]tools.Tool, len(entries))
	for i, e := range entries {
		var err error
		if all[i], err = gateway.Mirror(e); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// offerServer serves the items that the external MCP servers of a node offer: tools or features.
type offerServer[T any] struct {
	list func() []T
	// replaced returns a channel that is closed when the result of list may have changed.
	replaced func() <-chan struct{}
	// maxBytes limits the size of the items in one answer; a larger item is sent alone.
	maxBytes int
}

// offerMethod returns the method that serves the result of list. Each part is at most half as large as the largest message of
// the connection.
func offerMethod[T any](c *bus.Conn, list func() []T, replaced func() <-chan struct{}) rpc.Method {
	return rpc.Handle(offerServer[T]{list, replaced, int(c.NATS().MaxPayload() / 2)}.answer)
}

// answer waits until the version differs from in.After, at most for in.Wait, and returns the items from in.From on.
func (f offerServer[T]) answer(ctx context.Context, in offerRequest) (offerReply, error) {
	limit := time.NewTimer(in.Wait)
	defer limit.Stop()
	for {
		replaced := f.replaced()
		all, version, err := f.encoded()
		if err != nil || version != in.After {
			return f.part(all, version, in.From), err
		}
		select {
		case <-replaced:
		case <-limit.C:
			return offerReply{Version: version}, nil
		case <-ctx.Done():
			return offerReply{}, fault.From(ctx.Err())
		}
	}
}

// encoded returns the encoded items, and their digest as the version.
func (f offerServer[T]) encoded() (all []json.RawMessage, version string, err error) {
	sum := sha256.New()
	for _, item := range f.list() {
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, "", fault.Wrap(fault.Internal, err, "what a server offers cannot be encoded")
		}
		sum.Write(raw)
		all = append(all, raw)
	}
	return all, hex.EncodeToString(sum.Sum(nil)), nil
}

// part returns items starting at from, as many as fit into an answer.
func (f offerServer[T]) part(all []json.RawMessage, version string, from int) offerReply {
	reply, size := offerReply{Version: version}, 0
	for i := min(max(from, 0), len(all)); i < len(all); i++ {
		if size += len(all[i]); size > f.maxBytes && len(reply.Items) > 0 {
			reply.Next = i
			break
		}
		reply.Items = append(reply.Items, all[i])
	}
	return reply
}
