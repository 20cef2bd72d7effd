package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// salvage removes damaged records from the store, and shows one line for each removed record and each affected task.
func (c *doctorCommands) salvage(ctx context.Context) error {
	var done bus.Salvaged
	err := c.onFiles(ctx, node.NewFileAct("store.salvage", "", nil), func() (err error) {
		done, err = c.nodes.Salvage(ctx, c.cfg)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.emit(view{data: done, text: func(w io.Writer) error { return writeLines(w, salvageLines(done)) }}); err != nil {
		return err
	}
	if n := done.Report.Found; n > 0 {
		return fault.New(fault.DataLoss, "the log still has %s: %s", screen.Plural(n, "problem"), done.Report.Problems[0]).
			WithHint("bring a backup back: orch restore FILE --replace")
	}
	return nil
}

func salvageLines(done bus.Salvaged) []string {
	if len(done.Cut) == 0 && done.Lost == nil {
		return []string{"nothing is damaged"}
	}
	var lines []string
	for _, p := range done.Cut {
		lines = append(lines, "cut out: "+screen.Escape(p.String()))
	}
	if done.Lost != nil {
		for _, task := range slices.Sorted(maps.Keys(done.Lost.Tasks)) {
			lines = append(lines, string(task)+" is lost: "+screen.Escape(done.Lost.Tasks[task].What))
		}
		for _, ref := range slices.Sorted(maps.Keys(done.Lost.Values)) {
			lines = append(lines, "a large value of "+string(done.Lost.Values[ref])+" is lost: "+ref)
		}
	}
	return append(lines, "everything else is whole; the copies and a list are in "+done.Aside)
}

// lostText lists the removed records, up to a limit.
func lostText(l *bus.Lost) string {
	var names []string
	for _, task := range slices.Sorted(maps.Keys(l.Tasks)) {
		names = append(names, string(task))
	}
	if n := len(names); n > shownProblems {
		names = append(names[:shownProblems], "and more")
	}
	for _, part := range []struct {
		count int
		what  string
	}{{len(l.Values), "large value"}, {len(l.Tasks), "task"}} {
		if part.count > 0 {
			names = append([]string{screen.Plural(part.count, part.what)}, names...)
		}
	}
	commits := 0
	for _, r := range l.Positions {
		commits += int(r[1] - r[0] + 1) //nolint:gosec // a count of what was read
	}
	if commits > 0 {
		names = append(names, "with "+screen.Plural(commits, "commit"))
	}
	return strings.Join(names, " ") + "; see the folder aside of the data directory"
}
