package node

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/auditor"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

// openAudit opens the audit stream, and records what was done while no node ran. The journal itself is created by the first act.
func (n *Node) openAudit(ctx context.Context) error {
	acts := auditor.New(auditor.Config{Open: opens(n.host, bus.AuditJournal, func(j *bus.Journal) auditor.Journal { return j }), Redact: n.redactText, Clock: n.cfg.wall(), Logger: n.cfg.logger()})
	n.acts.Store(acts)
	n.onStop(func(context.Context) error { acts.Close(); return nil })
	if n.cfg.Storage.ReadNewer && n.store.Newer() {
		return nil
	}
	n.recordFiles(ctx)
	n.recordPolicy(ctx)
	return nil
}

// auditedAPI records acts and refused requests. Submissions, calls and reads that are not refused take the direct way.
type auditedAPI struct {
	api.API

	direct api.API
	host   *host
	face   string
}

// audited returns the API of the node for a face, which records what is done there.
func (h *host) audited(face string) api.API {
	a := &auditedAPI{direct: h.commands(), host: h, face: face} // a pointer: sessions that hold it are compared
	a.API = api.NewClient(a.send)
	return a
}

// Submit implements api.API.
func (a *auditedAPI) Submit(ctx context.Context, r api.SubmitRequest) (reply api.SubmitReply, err error) {
	if r.Undoes != "" {
		act := audit.Act{Actor: r.Actor, Face: a.face, Name: "task.undo", Target: string(r.Undoes)}
		err = a.host.act(ctx, act, false, func() (string, *audit.Link, error) {
			if reply, err = a.direct.Submit(ctx, r); err != nil {
				return "", nil, err
			}
			return "", a.host.linkTo(ctx, &reply), nil
		})
		return reply, err
	}
	reply, err = a.direct.Submit(ctx, r)
	a.submitted(ctx, r, err)
	return reply, err
}

// SubmitBatch implements api.API.
func (a *auditedAPI) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	reply, err := a.direct.SubmitBatch(ctx, r)
	for i, item := range reply.Tasks {
		if item.Error != nil {
			a.submitted(ctx, r.Tasks[i], item.Error)
		}
	}
	return reply, err
}

func (a *auditedAPI) submitted(ctx context.Context, r api.SubmitRequest, err error) {
	if err != nil {
		tool, args := soleCall(r.Plan)
		a.refused(ctx, Refusal{By: r.Actor, Tool: tool, Args: args, Error: fault.From(err)})
	}
}

// Call implements api.API.
func (a *auditedAPI) Call(ctx context.Context, r api.CallRequest) (api.CallReply, error) {
	reply, err := a.direct.Call(ctx, r)
	if err != nil {
		a.refused(ctx, Refusal{By: r.Actor, Tool: r.Tool, Args: r.Args, Task: r.ID, Error: fault.From(err)})
	}
	return reply, err
}

func (a *auditedAPI) refused(ctx context.Context, r Refusal) {
	r.By, r.face = cmp.Or(r.By, audit.OriginOf(ctx).Actor), a.face
	a.host.recordRefusal(ctx, r)
}

// send sends a request to the API of the node. If it is an act, it records that before, and its result after it.
func (a *auditedAPI) send(ctx context.Context, c api.Call) error {
	act, acts := c.Act()
	if !acts {
		err := c.Make(ctx, a.direct)
		if fault.Has(err, fault.Forbidden) {
			a.refused(ctx, Refusal{Error: fault.From(err), operation: "api." + c.Name})
		}
		return err
	}
	act.Face = a.face
	return a.host.act(ctx, act, c.Effect == api.Administers, func() (string, *audit.Link, error) {
		err := c.Make(ctx, a.direct)
		if err != nil {
			return "", nil, err
		}
		return "", a.host.linkTo(ctx, c.Out), nil
	})
}

// linkTo returns the link to the commit of a task that a reply is about; nil for none.
func (h *host) linkTo(ctx context.Context, reply any) *audit.Link {
	id, rev := api.ChangedTask(reply)
	if id == "" {
		return nil
	}
	link := &audit.Link{ID: id, Rev: rev}
	page, err := h.orch.History(ctx, api.HistoryRequest{ID: id, From: max(rev, 1), Limit: 1})
	if err == nil && len(page.Commits) == 1 && page.Commits[0].Rev == rev {
		link.Hash = page.Commits[0].Hash
	}
	return link
}

// act records an act, does it, and records its result. If the act cannot be recorded, it is only done if it need not be: do then has
// left its trace elsewhere, such as in the log of a task. do returns what it has created, if anything, and the task that it has changed.
func (h *host) act(ctx context.Context, act audit.Act, must bool, do func() (created string, task *audit.Link, err error)) error {
	o := audit.OriginOf(ctx)
	act.Actor, act.Credential, act.Source = cmp.Or(act.Actor, o.Actor, h.Operator()), o.Credential, o.Source
	act.Face = cmp.Or(o.Face, act.Face, audit.FaceProcess)
	acts := h.acts.Load()
	pending, err := acts.Begin(ctx, act)
	if err != nil && must {
		return err
	}
	if err != nil {
		h.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "act_not_recorded", slog.String("act", act.Name), slog.String("actor", act.Actor), slog.Any("error", err))
	}
	created, task, err := do()
	if pending == nil {
		acts.Ended(act, err, task)
	}
	pending.End(err, created, task)
	return err
}

// own records an act of the node itself. It does not wait.
func (h *host) own(name string, params map[string]string) {
	part, _, _ := strings.Cut(name, ".") // that of the node which acts
	h.acts.Load().Ended(audit.Act{Actor: "system:" + part, Face: audit.FaceNode, Name: name, Params: params}, nil, nil)
}

// auditedStore is what a store offers over the bus. It records backups.
type auditedStore struct {
	*bus.Store

	host *host
}

var _ rpc.Storage = auditedStore{}

// PauseArchive implements rpc.Storage. The first pause of a backup is the act.
func (s auditedStore) PauseArchive(ctx context.Context, p bus.ArchivePause) error {
	if p.Renew || p.End {
		return s.Store.PauseArchive(ctx, p)
	}
	return s.host.act(ctx, audit.Act{Name: "backup.take", Face: audit.FaceBus}, true, func() (string, *audit.Link, error) {
		return "", nil, s.Store.PauseArchive(ctx, p)
	})
}

// Backup copies the store to a file, like bus.Store.Backup, and records that.
func (n *Node) Backup(ctx context.Context, file string, cfg bus.BackupConfig) (m bus.Manifest, err error) {
	act := audit.Act{Name: "backup.take", Face: audit.FaceProcess, Params: map[string]string{"file": file}}
	err = n.act(ctx, act, true, func() (string, *audit.Link, error) {
		m, err = n.store.Backup(ctx, file, cfg)
		return "", nil, err
	})
	return m, err
}

// auditedTokens is a bus.TokenStore that records what is done with tokens.
type auditedTokens struct {
	bus.TokenStore

	host *host
	face string
}

// CreateToken implements bus.TokenStore.
func (t auditedTokens) CreateToken(ctx context.Context, in bus.NewToken) (token bus.Token, err error) {
	act := audit.Act{Actor: in.Actor, Face: t.face, Name: "token.create", Target: in.Name, Params: map[string]string{
		"name": in.Name, "role": in.Role, "replaces": in.Replaces,
	}}
	err = t.host.act(ctx, act, true, func() (string, *audit.Link, error) {
		token, err = t.TokenStore.CreateToken(ctx, in)
		return token.ID, nil, err
	})
	return token, err
}

// RevokeToken implements bus.TokenStore.
func (t auditedTokens) RevokeToken(ctx context.Context, in bus.RevokeToken) (token bus.Token, err error) {
	act := audit.Act{Actor: in.Actor, Face: t.face, Name: "token.revoke", Target: in.Token}
	err = t.host.act(ctx, act, true, func() (string, *audit.Link, error) {
		token, err = t.TokenStore.RevokeToken(ctx, in)
		return token.ID, nil, err
	})
	return token, err
}

// TokenStore returns the node's list of bearer tokens. Acts are recorded in the audit stream.
func (n *Node) TokenStore() bus.TokenStore {
	return auditedTokens{n.tokens, n.host, audit.FaceProcess}
}

// changedTasks returns the parameters for an act about many tasks: their number and the digest of their ids.
func changedTasks(tasks []events.TaskID) map[string]string {
	return map[string]string{"tasks": strconv.Itoa(len(tasks)), "ids": audit.SetDigest(tasks)}
}
