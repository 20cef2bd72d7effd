package main

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// onFiles does something with files that belongs into the audit stream. It is noted before it is done, and its result after that: by the
// running node, or else in the data directory, for the next node that starts there.
func (cn *connector) onFiles(ctx context.Context, act node.FileAct, do func() error) error {
	act.Actor = "user:" + cn.user
	begun := act
	begun.Begun = true
	if err := cn.noteAct(ctx, begun); err != nil {
		return err
	}
	err := do()
	if err != nil {
		act.Error = fault.From(err)
	}
	if noted := cn.noteAct(ctx, act); err == nil {
		return noted
	}
	return err
}

// noteAct notes an act on files.
func (cn *connector) noteAct(ctx context.Context, act node.FileAct) error {
	s, err := cn.nodes.Dial(ctx, cn.cfg)
	if fault.Has(err, fault.Unavailable) && cn.cfg.Server == "" && cn.cfg.Storage.NATS == "" {
		return node.AppendFileAct(cn.cfg.DataDir, act)
	}
	if err != nil {
		return err
	}
	return useSession(ctx, s, func(s session) error {
		act.Actor = s.Identity()
		return s.Ask(ctx, node.RecordMethod, act, &struct{}{})
	})
}
