package statemachine

import (
	"context"
	"testing"

	"github.com/looplab/fsm"

	"github.com/orch-dev/orch/events"
)

// BenchmarkNext is one transition by the table (ADR 0004).
func BenchmarkNext(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Next(NeedsAction, events.TaskStarted); !ok {
			b.Fatal("no edge")
		}
	}
}

// BenchmarkFSM is the same transition by an instance of looplab/fsm that exists already.
func BenchmarkFSM(b *testing.B) {
	descs := fsm.Events{}
	for _, t := range Table() {
		d := fsm.EventDesc{Name: t.Event, Dst: string(t.To)}
		for _, from := range t.From {
			d.Src = append(d.Src, string(from))
		}
		descs = append(descs, d)
	}
	machine := fsm.NewFSM(string(NeedsAction), descs, nil)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		machine.SetState(string(NeedsAction))
		if err := machine.Event(ctx, "start"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewFSM measures the cost of one fsm.FSM per task.
func BenchmarkNewFSM(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		fsm.NewFSM(string(NeedsAction), fsm.Events{{Name: "start", Src: []string{"NEEDS_ACTION"}, Dst: "IN_PROGRESS"}}, nil)
	}
}
