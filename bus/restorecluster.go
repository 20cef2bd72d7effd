package bus

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
)

// restoringKey is the key of an unfinished restore, in the bucket of the members. It is there as long as the streams of the cluster may
// be those of half a backup.
const restoringKey = "restoring"

// unfinished is the value of restoringKey.
type unfinished struct {
	File string `json:"file"`
}

// ReasonHalfRestored is the reason of a CONFLICT: a restore to the servers of the cluster was not completed.
const ReasonHalfRestored = "HALF_RESTORED"

// ClusterRestoreConfig configures a restore to the servers of a cluster.
type ClusterRestoreConfig struct {
	// File is the path of the backup.
	File string
	// Store configures the store that is made. Its lease must be held, so that no node becomes active meanwhile.
	Store StoreConfig
	// Progress, which may be nil, is called at the start of each step.
	Progress func(step string)
}

// RestoreCluster makes the streams of a backup on the external servers of a connection. The servers may have no store; the streams of an
// unfinished restore are deleted. Until it is complete, no node opens the store. Errors: CONFLICT if there is a store, DATA_LOSS for
// a damaged backup, UNAVAILABLE.
func (c *Conn) RestoreCluster(ctx context.Context, cfg ClusterRestoreConfig) (r Restored, err error) {
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	files := RestoreConfig{File: cfg.File, Progress: cfg.Progress}
	cfg.Progress("checking the backup")
	if r.Manifest, err = files.read(ctx, nil); err != nil {
		return r, err
	}
	if err := c.clear(ctx); err != nil {
		return r, err
	}
	if err := c.markRestoring(ctx, cfg.File); err != nil {
		return r, err
	}
	if r.Report, err = c.fillCluster(ctx, cfg, r.Manifest); err == nil {
		return r, c.unmarkRestoring(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	if c.deleteStreams(ctx) == nil {
		err = errors.Join(err, c.unmarkRestoring(ctx))
	}
	return r, err
}

// clear deletes the streams of an unfinished restore. It returns CONFLICT if there are others.
func (c *Conn) clear(ctx context.Context) error {
	switch half, err := c.restoring(ctx); {
	case err != nil:
		return err
	case half != nil:
		return c.deleteStreams(ctx)
	}
	names, err := c.storeStreams(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	return fault.New(fault.Conflict, "the servers have a store: %s", strings.Join(names, ", ")).WithField("nats").
		WithHint("back it up (orch backup), and delete its streams, for example with nats stream rm; a restore deletes none")
}

// storeStreams returns the names of the streams of a store, in order.
func (c *Conn) storeStreams(ctx context.Context) ([]string, error) {
	var names []string
	list := c.js.StreamNames(ctx)
	for name := range list.Name() {
		if isOrchStream(name) && name != "KV_"+election.Bucket {
			names = append(names, name)
		}
	}
	if err := list.Err(); err != nil {
		return nil, openFault(err)
	}
	slices.Sort(names)
	return names, nil
}

func (c *Conn) deleteStreams(ctx context.Context) error {
	names, err := c.storeStreams(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return openFault(err)
		}
	}
	return nil
}

// restoring returns the unfinished restore, nil if there is none.
func (c *Conn) restoring(ctx context.Context) (*unfinished, error) {
	members, err := c.js.KeyValue(ctx, election.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil //nolint:nilnil // as described
	}
	if err != nil {
		return nil, openFault(err)
	}
	entry, err := members.Get(ctx, restoringKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil //nolint:nilnil // as described
	}
	if err != nil {
		return nil, openFault(err)
	}
	var u unfinished
	if err := json.Unmarshal(entry.Value(), &u); err != nil {
		u.File = "a backup"
	}
	return &u, nil
}

// checkRestored returns CONFLICT if a restore to the servers was not completed.
func (c *Conn) checkRestored(ctx context.Context) error {
	if !c.External() {
		return nil
	}
	half, err := c.restoring(ctx)
	if err != nil || half == nil {
		return err
	}
	return fault.New(fault.Conflict, "the restore of %s to the servers was not completed", half.File).WithReason(ReasonHalfRestored).
		WithHint("repeat it: orch restore FILE --nats URL")
}

func (c *Conn) markRestoring(ctx context.Context, file string) error {
	members, err := c.js.KeyValue(ctx, election.Bucket)
	if err != nil {
		return openFault(err)
	}
	data, err := json.Marshal(unfinished{file})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the restore cannot be noted")
	}
	if _, err := members.Put(ctx, restoringKey, data); err != nil {
		return openFault(err)
	}
	return nil
}

func (c *Conn) unmarkRestoring(ctx context.Context) error {
	members, err := c.js.KeyValue(ctx, election.Bucket)
	if err == nil {
		err = members.Delete(ctx, restoringKey)
	}
	if err != nil {
		return openFault(err)
	}
	return nil
}

// fillCluster restores all parts of the backup, and checks the store.
func (c *Conn) fillCluster(ctx context.Context, cfg ClusterRestoreConfig, m Manifest) (Report, error) {
	files := RestoreConfig{File: cfg.File, Progress: cfg.Progress}
	_, err := files.read(ctx, func(name string, data io.Reader) error {
		if name == authFile { // the credentials of an embedded server
			return nil
		}
		cfg.Progress("restoring " + name)
		return c.restoreStream(ctx, name, m.config(name), data)
	})
	if err != nil {
		return Report{}, err
	}
	cfg.Progress("checking the result")
	cfg.Store.restoring = true
	return c.checkFilled(ctx, cfg.Store, m)
}

// checkFilled opens a store that was restored, and checks it.
func (c *Conn) checkFilled(ctx context.Context, cfg StoreConfig, m Manifest) (report Report, err error) {
	store, err := c.OpenStore(ctx, cfg)
	if err != nil {
		return report, err
	}
	least := m.StoreVersion
	for _, p := range m.Parts {
		if name, ok := strings.CutPrefix(p.Name, journalPrefix); ok {
			least = max(least, versionOfJournal(name))
		}
	}
	if err = store.RaiseVersion(ctx, least); err == nil {
		report, err = store.Verify(ctx, nil)
	}
	if err == nil && report.Found > 0 {
		err = fault.New(fault.DataLoss, "the restored store is damaged: %s", report.Problems[0]).WithField("file").WithHint("use another backup")
	}
	return report, errors.Join(err, store.Close(context.WithoutCancel(ctx)))
}
