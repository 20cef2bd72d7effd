package node

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/auditor"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// pendingActs is the file of a data directory with the acts that were done while no node ran, one a line.
	pendingActs = "audit.pending"
	// knownPolicy is the file with the digest of the policy that the audit stream knows.
	knownPolicy = "audit.policy"
	// maxPending is the maximum size of pendingActs in bytes.
	maxPending = 1 << 20
)

// RecordMethod is the method with which a command records an act on files. Only the operator's credential may call it.
const RecordMethod = bus.AuditPrefix + ".record"

// FileAct is an act of a command that works on files, without a node.
type FileAct struct {
	// ID identifies the act, so that it is recorded once.
	ID    string `json:"id"`
	Actor string `json:"actor"`
	Name  string `json:"act"`
	// Face is the face of an act on many tasks, which commands report as well; empty for files.
	Face   string            `json:"face,omitempty"`
	Target string            `json:"target,omitempty"`
	Params map[string]string `json:"params,omitempty"`
	// Begun is set in the note of the act before it is done. The note of its result has the same ID.
	Begun bool `json:"begun,omitempty"`
	// Error is set if the act was refused or has failed.
	Error *fault.Error `json:"error,omitempty"`
}

// ActorFields implements rpc.ActorRequest.
func (f *FileAct) ActorFields() []*string { return []*string{&f.Actor} }

// NewFileAct returns an act of a command that works on files.
func NewFileAct(name, target string, params map[string]string) FileAct {
	return FileAct{ID: rand.Text(), Name: name, Target: target, Params: params}
}

// act returns the act for the audit stream.
func (f *FileAct) act() audit.Act {
	params := map[string]string{"id": f.ID}
	maps.Copy(params, f.Params)
	return audit.Act{Actor: f.Actor, Face: cmp.Or(f.Face, audit.FaceFiles), Name: f.Name, Target: f.Target, Params: params}
}

// err returns the error of the act.
func (f *FileAct) err() error {
	if f.Error == nil {
		return nil
	}
	return f.Error
}

// fileActs are the acts on files that have begun.
type fileActs struct {
	mu    sync.Mutex
	begun map[string]*auditor.Pending
}

// maxFileActs is the maximum number of acts on files that have begun. Results beyond it are entries of their own.
const maxFileActs = 1000

// record records an act on files, or its result.
func (a *fileActs) record(ctx context.Context, acts *auditor.Stream, f FileAct) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.begun[f.ID]
	switch {
	case f.Begun:
		p, err := acts.Begin(ctx, f.act())
		if err != nil {
			return err
		}
		if a.begun == nil || len(a.begun) >= maxFileActs {
			a.begun = map[string]*auditor.Pending{}
		}
		a.begun[f.ID] = p
		return nil
	case p != nil:
		delete(a.begun, f.ID)
		return p.EndDurably(ctx, f.err())
	default:
		return acts.Record(ctx, f.act(), f.err())
	}
}

// resume makes an act one that has begun, after an earlier attempt to record it.
func (a *fileActs) resume(id string, p *auditor.Pending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun == nil {
		a.begun = map[string]*auditor.Pending{}
	}
	a.begun[id] = p
}

// recordLocal records an act on files that a command reports.
func (h *host) recordLocal(ctx context.Context, f FileAct) (struct{}, error) {
	return struct{}{}, h.fileActs.record(ctx, h.acts.Load(), f)
}

// AppendFileAct notes an act on files in a data directory. The next node that starts there records it in the audit stream.
func AppendFileAct(dir string, f FileAct) error {
	line, err := json.Marshal(f)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "an act cannot be encoded")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the act cannot be noted in the data directory").WithHint("it must be writable")
	}
	file, err := os.OpenFile(filepath.Join(dir, pendingActs), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the act cannot be noted in the data directory").WithHint("it must be writable")
	}
	_, err = file.Write(append(line, '\n'))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the act cannot be noted in the data directory").WithHint("it must be writable")
	}
	return nil
}

// recordFiles records the acts that were noted in the data directory. If that fails, the next start tries again.
func (h *host) recordFiles(ctx context.Context) {
	path := filepath.Join(h.cfg.DataDir, pendingActs)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = h.recordPending(ctx, data[:min(len(data), maxPending)])
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		h.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "acts_on_files_not_recorded", slog.Any("error", err))
	}
}

func (h *host) recordPending(ctx context.Context, data []byte) error {
	acts := h.acts.Load()
	known, err := acts.Audit(ctx, api.AuditRequest{Limit: api.MaxActs})
	if err != nil {
		return err
	}
	recorded := map[string]audit.View{}
	for _, v := range known.Acts {
		if v.Face == audit.FaceFiles {
			recorded[v.Params["id"]] = v
		}
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxPending)
	for lines.Scan() {
		var f FileAct
		if json.Unmarshal(lines.Bytes(), &f) != nil { // cut off by a crash, before the act
			continue
		}
		was, known := recorded[f.ID]
		if known && (f.Begun || was.Outcome != audit.Unknown) {
			continue
		}
		if known {
			h.fileActs.resume(f.ID, acts.Continue(was))
		}
		if err := h.fileActs.record(ctx, acts, f); err != nil {
			return err
		}
	}
	return lines.Err()
}

// cutEvery is the interval between two searches for old entries of the audit stream.
const cutEvery = 24 * time.Hour

// startAuditRetention removes old entries of the audit stream in the background, in a permanent node.
func (ch *chores) startAuditRetention(ctx context.Context) error {
	keep := ch.cfg.Limits.Retention.Audit
	if keep == 0 || ch.cfg.Guest != "" || ch.cfg.Confinement.ReadOnly || ch.store.Newer() {
		return nil
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for first := true; first || pause.For(run, cutEvery) == nil; first = false {
			if _, err := ch.acts.Load().Cut(run, ch.cfg.wall()().Add(-keep), retainActor); err != nil && run.Err() == nil {
				ch.cfg.logger().LogAttrs(run, slog.LevelWarn, "old_acts_not_removed", slog.Any("error", err))
			}
		}
	}()
	ch.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}

// removing records that tasks are removed whose time is over, before that is done.
func (h *host) removing(ctx context.Context, due int) (ended func(int, error), err error) {
	act := audit.Act{Actor: retainActor, Face: audit.FaceNode, Name: "retention.tasks", Params: map[string]string{"due": strconv.Itoa(due)}}
	p, err := h.acts.Load().Begin(ctx, act)
	if err != nil {
		return nil, err
	}
	return func(removed int, err error) { p.End(err, strconv.Itoa(removed), nil) }, nil
}

// recordPolicy records the policy of the node, if it is not the one of the previous start.
func (h *host) recordPolicy(ctx context.Context) {
	digest, file := "none", ""
	if rules := h.executor.policy.Rules(); rules != nil {
		digest, file = rules.Digest(), rules.File
	}
	path := filepath.Join(h.cfg.DataDir, knownPolicy)
	was, err := os.ReadFile(path)
	before := cmp.Or(strings.TrimSpace(string(was)), "none")
	if before == digest {
		return
	}
	act := audit.Act{Actor: h.Operator(), Face: audit.FaceNode, Name: "policy.load", Target: file, Params: map[string]string{"sha256": digest, "before": before}}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = h.acts.Load().Record(ctx, act, nil)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(digest+"\n"), 0o600)
	}
	if err != nil {
		h.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "policy_not_recorded", slog.Any("error", err))
	}
}
