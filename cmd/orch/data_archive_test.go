package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// archiveRuns answers like a run that ends after a number of requests.
func archiveRuns(requests int, asked *[]api.ArchiveRequest) func(api.ArchiveRequest) (api.ArchiveReply, error) {
	return func(r api.ArchiveRequest) (api.ArchiveReply, error) {
		*asked = append(*asked, r)
		return api.ArchiveReply{Archived: len(*asked), Running: len(*asked) < requests}, nil
	}
}

func TestArchiveCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		embedded bool
		args     []string
		requests int
		out      string
	}{
		{args: []string{"archive", "--age", "7d"}, requests: 1, out: "goes on in the background"},
		{args: []string{"archive", "--age", "7d", "--wait"}, requests: 3, out: "3 tasks archived\n"},
		{args: []string{"archive", "--age", "7d"}, embedded: true, requests: 3, out: "3 tasks archived\n"},
		{args: []string{"archive", "--status", "--wait"}, requests: 3, out: "3 tasks archived\n"},
	} {
		var asked []api.ArchiveRequest
		p := newProbe(t, &fakeSession{embedded: test.embedded, archive: archiveRuns(3, &asked)})
		assert.Equal(t, 0, p.run(t.Context(), test.args))
		assert.Contains(t, p.out.String(), test.out)
		assert.Len(t, asked, test.requests)
		assert.Equal(t, test.args[1] == "--status", asked[0].StatusOnly)
		if !asked[0].StatusOnly {
			assert.Equal(t, 7*24*time.Hour, asked[0].Age)
		}
		for _, r := range asked[1:] {
			assert.True(t, r.StatusOnly, "it is not begun again")
		}
	}
}

func TestArchiveCommandSaysWhyItStandsStill(t *testing.T) {
	t.Parallel()
	full := fault.New(fault.DiskFull, "no room")
	p := newProbe(t, &fakeSession{archive: func(api.ArchiveRequest) (api.ArchiveReply, error) {
		return api.ArchiveReply{Running: true, Error: full}, nil
	}})
	assert.NotZero(t, p.run(t.Context(), []string{"archive"}))
	assert.Contains(t, p.err.String(), "DISK_FULL")
}
