package election

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// View is an entry in the list of members.
type View struct {
	Info

	// Seen is when the member last renewed its key, by the clock of the server.
	Seen time.Time `json:"seen"`
	// Active is set if the member holds the lease. ActiveSince is then when it acquired the lease.
	Active      bool       `json:"active"`
	ActiveSince *time.Time `json:"active_since,omitempty"`
}

// Members lists the members, the active one first.
func (m *Member) Members(ctx context.Context) ([]View, error) {
	ctx, stop := context.WithTimeout(ctx, 2*answerWithin)
	defer stop()
	keys, err := m.keys(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	var all []View
	var holder Info
	for _, key := range keys {
		entry, err := m.kv.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound): // the key was deleted or has expired since
			continue
		case err != nil:
			return nil, unavailable(err)
		}
		if err := addEntry(entry, &all, &holder); err != nil {
			return nil, err
		}
	}
	return sortViews(all, holder), nil
}

// keys returns the keys of the bucket. It reads the subjects of the stream instead of watching the bucket: the initial list of
// a watch may omit a key that is renewed at the same time.
func (m *Member) keys(ctx context.Context) (keys []string, err error) {
	stream, err := m.js.Stream(ctx, "KV_"+Bucket)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		keys = append(keys, strings.TrimPrefix(subject, subjectPrefix))
	}
	return keys, nil
}

// addEntry adds a member to the list, or sets holder if the entry is the lease.
func addEntry(entry jetstream.KeyValueEntry, all *[]View, holder *Info) error {
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

func sortViews(all []View, holder Info) []View {
	for i := range all {
		if all[i].ID == holder.ID {
			all[i].Active, all[i].ActiveSince = true, &holder.Since
		}
	}
	slices.SortFunc(all, func(a, b View) int {
		if a.Active != b.Active {
			return cmp.Compare(boolToInt(b.Active), boolToInt(a.Active))
		}
		return a.Since.Compare(b.Since)
	})
	return all
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
