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
// unfinished restore are deleted. Until it is complete, no node opens the store, also after an error: whoever has lost the lease
// meanwhile must not delete what the next holder has made, so the next restore does. Errors: CONFLICT if there is a store, DATA_LOSS
// for a damaged backup, UNAVAILABLE.
func (c *Conn) RestoreCluster(ctx context.Context, cfg ClusterRestoreConfig) (r Restored, err error) {
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	files := RestoreConfig{File: cfg.File, Progress: cfg.Progress}
	cfg.Progress("checking the backup")
	if r.Manifest, err = files.read(ctx, nil); err != nil {
		return r, err
	}
	if err := c.clear(ctx, cfg.Store.Lease); err != nil {
		return r, err
	}
	mark, err := c.markRestoring(ctx, cfg.File)
	if err != nil {
		return r, err
	}
	if r.Report, err = c.fillCluster(ctx, cfg, r.Manifest); err == nil {
		err = c.unmarkRestoring(ctx, mark)
	}
	return r, err
}

// clear deletes the streams of an unfinished restore. It returns CONFLICT if there are others.
func (c *Conn) clear(ctx context.Context, lease Lease) error {
	switch half, err := c.restoring(ctx); {
	case err != nil:
		return err
	case half != nil:
		return c.deleteStreams(ctx, lease)
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

// deleteStreams deletes the streams of a store while the lease is held. The server does not compare: a process that stands still between
// its look at the lease and the deletion is not kept from it.
func (c *Conn) deleteStreams(ctx context.Context, lease Lease) error {
	names, err := c.storeStreams(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !awaitHeld(ctx, lease) {
			return fenced()
		}
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

// markRestoring notes that a restore has begun, and returns the revision of the note.
func (c *Conn) markRestoring(ctx context.Context, file string) (uint64, error) {
	members, err := c.js.KeyValue(ctx, election.Bucket)
	if err != nil {
		return 0, openFault(err)
	}
	data, err := json.Marshal(unfinished{file})
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "the restore cannot be noted")
	}
	mark, err := members.Put(ctx, restoringKey, data)
	if err != nil {
		return 0, openFault(err)
	}
	return mark, nil
}

// unmarkRestoring removes the note of a revision; that of another restore stays, with an error.
func (c *Conn) unmarkRestoring(ctx context.Context, mark uint64) error {
	members, err := c.js.KeyValue(ctx, election.Bucket)
	if err == nil {
		err = members.Delete(ctx, restoringKey, jetstream.LastRevision(mark))
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
	if err == nil && report.compact && report.StoreVersion < compactVersion { // the version was raised after the backup had begun
		err, report.StoreVersion = store.RaiseVersion(ctx, compactVersion), compactVersion
	}
	if err == nil && report.Found > 0 {
		err = fault.New(fault.DataLoss, "the restored store is damaged: %s", report.Problems[0]).WithField("file").WithHint("use another backup")
	}
	return report, errors.Join(err, store.Close(context.WithoutCancel(ctx)))
}
