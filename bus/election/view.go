package election

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// View is a member as others see it.
type View struct {
	Info

	// Seen is when the member was last heard of, by the clock of the server.
	Seen time.Time `json:"seen"`
	// Active says that the member holds the lease, since ActiveSince.
	Active      bool       `json:"active"`
	ActiveSince *time.Time `json:"active_since,omitempty"`
}

// Members lists those who take part, the active one first.
func (m *Member) Members(ctx context.Context) ([]View, error) {
	ctx, stop := context.WithTimeout(ctx, 2*answerWithin)
	defer stop()
	values, err := m.kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, unavailable(err)
	}
	defer func() { _ = values.Stop() }() // it ends with ctx
	var all []View
	var holder Info
	for {
		select {
		case <-ctx.Done():
			return nil, unavailable(ctx.Err())
		case entry := <-values.Updates():
			if entry == nil {
				return arrange(all, holder), nil
			}
			if err := sort(entry, &all, &holder); err != nil {
				return nil, err
			}
		}
	}
}

// sort puts an entry where it belongs.
func sort(entry jetstream.KeyValueEntry, all *[]View, holder *Info) error {
	v := View{Seen: entry.Created().UTC()}
	if err := json.Unmarshal(entry.Value(), &v.Info); err != nil {
		return fault.Wrap(fault.Internal, err, "the key "+entry.Key()+" of the bucket "+Bucket+" cannot be read").
			WithHint("use the same version of orch on all nodes")
	}
	switch {
	case entry.Key() == leaseKey:
		*holder = v.Info
	case strings.HasPrefix(entry.Key(), memberPrefix):
		*all = append(*all, v)
	}
	return nil
}

func arrange(all []View, holder Info) []View {
	for i := range all {
		if all[i].ID == holder.ID {
			all[i].Active, all[i].ActiveSince = true, &holder.Since
		}
	}
	slices.SortFunc(all, func(a, b View) int {
		if a.Active != b.Active {
			return cmp.Compare(boolean(b.Active), boolean(a.Active))
		}
		return a.Since.Compare(b.Since)
	})
	return all
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
