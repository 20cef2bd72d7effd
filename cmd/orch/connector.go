package main

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/node"
)

// connector connects a command to a node, and starts one if none runs.
type connector struct {
	*env

	nodes nodes
	// user is the operating system user who runs the command. identity is the identity that the node has authenticated; empty
	// until a session is open.
	user, identity string
}

// osUser returns the name of the user of the process. It asks the operating system, because environment variables can be set by
// anybody.
func osUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// actor returns the actor for the log: the authenticated identity, or the user if no session is open.
func (cn *connector) actor() string {
	return cmp.Or(cn.identity, "user:"+cn.user)
}

// stopTime limits how long an embedded node may take to stop.
const stopTime = 20 * time.Second

// open connects to a node, or starts one in this process (an embedded node). An embedded node may be handed over to another node
// while the session is open. The node of another command may end; the session then goes on with a node of this process.
func (cn *connector) open(ctx context.Context, m mode) (session, error) {
	beside := cn.besideCommand()
	s, err := cn.nodes.Open(ctx, cn.cfg, m)
	switch {
	case err != nil:
		return nil, err
	case s.Embedded():
		return cn.lasting(ctx, s, m), nil
	case beside || cn.besideCommand():
		return newReconnectingSession(s, func() (session, error) { return cn.nodes.Open(ctx, cn.cfg, m) }, cn.now), nil
	default:
		return s, nil
	}
}

// besideCommand reports whether the node that runs here is that of a command, and ends with it.
func (cn *connector) besideCommand() bool {
	return cn.cfg.Server == "" && cn.cfg.Storage.NATS == "" && bus.ReadHolder(cn.cfg.DataDir).Guest != ""
}

// with opens a session, calls do, and closes the session.
func (cn *connector) with(ctx context.Context, m mode, do func(s session) error) error {
	s, err := cn.open(ctx, m)
	if err != nil {
		return err
	}
	cn.identity = s.Identity()
	return useSession(ctx, s, do)
}

// withLasting is like with, but its session continues with another node if its node stops.
func (cn *connector) withLasting(ctx context.Context, m mode, do func(s session) error) error {
	s, err := cn.nodes.Open(ctx, cn.cfg, m)
	if err != nil {
		return err
	}
	cn.identity = s.Identity()
	return useSession(ctx, cn.lasting(ctx, s, m), do)
}

// lasting returns a session that continues with another node if the node of s stops.
func (cn *connector) lasting(ctx context.Context, s session, m mode) session {
	return newReconnectingSession(s, func() (session, error) { return dialOrOpen(ctx, cn.nodes, cn.cfg, m) }, cn.now)
}

// useSession calls do and then closes the session.
func useSession(ctx context.Context, s session, do func(s session) error) error {
	err := do(s)
	if closed := closeSession(ctx, s); err == nil {
		return closed
	}
	return err
}

// closeSession closes a session. An embedded node gets stopTime to stop, even if ctx has ended.
func closeSession(ctx context.Context, s session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return s.Close(ctx)
}

// withTask opens a session and resolves a reference to a task.
func (cn *connector) withTask(ctx context.Context, m mode, text string, do func(s session, id events.TaskID) error) error {
	return cn.with(ctx, m, func(s session) error {
		id, err := cn.find(ctx, s, text)
		if err != nil {
			return err
		}
		return do(s, id)
	})
}

// find resolves a reference to a task: a full id, a unique prefix of an id, or @last for the newest task of this user. If there
// is no such task, the error suggests a task with a similar id.
func (cn *connector) find(ctx context.Context, owner api.API, text string) (events.TaskID, error) {
	reply, err := owner.Find(ctx, api.FindRequest{Text: text, Actor: cn.actor()})
	if err == nil {
		return reply.ID, nil
	}
	e := fault.From(err)
	if e.Code != fault.NotFound || e.Hint != "" {
		return "", err
	}
	withHint := *e
	withHint.Hint = "see: orch list"
	if near := nearestID(ctx, owner, text); near != "" {
		withHint.Hint = "did you mean " + near + "?"
	}
	return "", &withHint
}

func nearestID(ctx context.Context, owner api.API, text string) string {
	list, err := owner.List(ctx, api.ListRequest{Limit: 200})
	if err != nil || len(text) < len("TASK_")+8 {
		return ""
	}
	ids := make([]string, len(list.Tasks))
	for i, t := range list.Tasks {
		ids[i] = string(t.ID)
	}
	return spell.Nearest(text, ids)
}

// atNode calls f with the external MCP servers of the running node. If no node runs, it calls otherwise with the error.
func (cn *connector) atNode(ctx context.Context, f func(node.Admin) error, otherwise func(error) error) error {
	s, err := cn.nodes.Dial(ctx, cn.cfg)
	switch {
	case err == nil:
		cn.identity = s.Identity()
		return useSession(ctx, s, func(s session) error { return f(node.NewAdmin(s).As(cn.actor())) })
	case cn.cfg.Server == "" && fault.Has(err, fault.Unavailable):
		return otherwise(err)
	default:
		return err
	}
}

// checkRoot returns CONFLICT if this process would execute the calls of a task that works in another folder. command is what the
// hint suggests.
func (cn *connector) checkRoot(s session, t api.TaskView, command string) error {
	own := pathguard.Real(cn.cfg.Root)
	if t.Root == "" || t.Root == own || !s.Embedded() && t.Root == bus.RootOf(cn.cfg.DataDir) {
		return nil
	}
	return fault.New(fault.Conflict, "the task %s works in %s, and this command in %s", t.ID, t.Root, own).
		WithHint("%s %s --root %s", command, t.ID, t.Root)
}

// checkContinued is checkRoot for a node in this process that continues a task.
func (cn *connector) checkContinued(ctx context.Context, s session, id events.TaskID) error {
	if !s.Embedded() {
		return nil
	}
	t, err := s.Get(ctx, api.GetRequest{ID: id})
	if err != nil || t.State.Terminal() || t.Imported != nil {
		return err
	}
	return cn.checkRoot(s, t, "orch watch")
}

// agoText says how long ago something was.
func (cn *connector) agoText(at time.Time) string {
	if age := screen.Age(cn.now(), at); age != "now" {
		return age + " ago"
	}
	return "just now"
}
