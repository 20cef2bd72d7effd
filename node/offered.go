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

// Offered are the tools of the outside servers of a node.
type Offered struct {
	// Version is another one when the tools are others; it is a digest of them, so that it outlives the node.
	Version string
	Tools   []gateway.Entry
}

// OfferedFeatures are the resources, templates and prompts of the outside servers of a node.
type OfferedFeatures struct {
	// Version is another one when the features are others; it is a digest of them, so that it outlives the node.
	Version  string
	Features []gateway.Feature
}

type (
	offerRequest struct {
		// After is a version that is known already; the answer waits for another one, at most for Wait.
		After string        `json:"after,omitempty"`
		Wait  time.Duration `json:"wait,omitempty"`
		// From is how many items of the answer are left out, because an earlier one had them.
		From int `json:"from,omitempty"`
	}
	offerReply struct {
		Version string            `json:"version"`
		Items   []json.RawMessage `json:"items,omitempty"`
		// Next is the From of the next request, 0 when this is all.
		Next int `json:"next,omitempty"`
	}
)

// Offered returns the tools of the outside servers. With a version that is known it waits until there is another one,
// and returns the known version, without tools, when there is none in time.
func (a Admin) Offered(ctx context.Context, after string, wait time.Duration) (Offered, error) {
	version, all, err := fetchAll[gateway.Entry](ctx, a.node, "catalogue", after, wait)
	return Offered{version, all}, err
}

// OfferedFeatures returns the resources, templates and prompts of the outside servers that are connected. It waits as
// Offered does.
func (a Admin) OfferedFeatures(ctx context.Context, after string, wait time.Duration) (OfferedFeatures, error) {
	version, all, err := fetchAll[gateway.Feature](ctx, a.node, "features", after, wait)
	return OfferedFeatures{version, all}, err
}

// fetchAll asks for all parts of what is offered.
func fetchAll[T any](ctx context.Context, node Asker, method, after string, wait time.Duration) (version string, all []T, err error) {
	ctx, stop := context.WithTimeout(ctx, wait+rpc.CallWithin)
	defer stop()
	request := offerRequest{After: after, Wait: wait}
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

// Mirrors returns tools that are listed and checked as those of a node are, and that only the node can call.
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

// offerServer tells others what the outside servers of a node offer: tools, or features.
type offerServer[T any] struct {
	list func() []T
	// replaced returns a channel that is closed when list may return others.
	replaced func() <-chan struct{}
	// most bounds the items in one answer, in bytes; a larger one comes alone.
	most int
}

// offerMethod returns the method that answers with what list returns, in parts of half a message of the connection.
func offerMethod[T any](c *bus.Conn, list func() []T, replaced func() <-chan struct{}) rpc.Method {
	return rpc.Handle(offerServer[T]{list, replaced, int(c.NATS().MaxPayload() / 2)}.answer)
}

// answer returns the items when they are others than those that are known, or as soon as they are.
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

// encoded returns the items, and their digest.
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

// part returns the items behind the first ones, as many as fit into an answer.
func (f offerServer[T]) part(all []json.RawMessage, version string, from int) offerReply {
	reply, size := offerReply{Version: version}, 0
	for i := min(max(from, 0), len(all)); i < len(all); i++ {
		if size += len(all[i]); size > f.most && len(reply.Items) > 0 {
			reply.Next = i
			break
		}
		reply.Items = append(reply.Items, all[i])
	}
	return reply
}
