package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// Each identity gets its own list, whoever else has listed before it, and in whichever order.
func TestListsOfIdentities(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	shared := n.face(speaking)
	list := shared.OfferedTools()
	var identities []server.Identity
	for _, show := range []server.Selection{
		{},
		{ReadOnly: true},
		{Tools: []string{"FILE_*"}},
		{Tools: []string{"FILE_*"}, ReadOnly: true},
		{Tools: []string{"echo", "plain"}},
		{Tools: []string{"echo"}},
		{Tools: []string{`echo""plain`}},
		{Tools: []string{"orch_status"}},
		{Tools: []string{"AGENT_*", "system.*"}},
	} {
		identities = append(identities, server.Identity{Name: "user:ada", Role: server.Operator, Show: show},
			server.Identity{Name: "agent:bob", Role: server.Agent, Agent: "a1", Show: show})
	}
	for range 2 {
		for _, who := range identities {
			for _, profile := range server.Profiles() {
				want := n.face(speaking).ListOf(profile, who, list)
				assert.JSONEq(t, string(want), string(shared.ListOf(profile, who, list)), "%s in %s", profile, who.Show.Tools)
			}
		}
		slices.Reverse(identities)
	}
}

// Over stdio every answer has the tools, also to a second request with the same id.
func TestListOverStdio(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	s := n.face(speaking)
	ask, end := overStdio(t, s)
	defer end()
	ask(initialize)
	for _, id := range []string{`1`, `"1"`, `1`} {
		var got struct {
			ID     json.RawMessage
			Result struct{ Tools []struct{ Name string } }
		}
		require.NoError(t, json.Unmarshal(ask(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list"}`), &got))
		assert.Equal(t, id, string(got.ID))
		var names []string
		for _, tool := range got.Result.Tools {
			names = append(names, tool.Name)
		}
		assert.Subset(t, names, n.catalogue.Names())
	}
}

// overStdio connects to a server over stdio. ask sends a request and returns the line of the answer.
func overStdio(tb testing.TB, s *server.Server) (ask func(request string) []byte, end func()) {
	tb.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.WithoutCancel(tb.Context()), in, out) }()
	answers := bufio.NewReaderSize(from, 1<<20)
	ask = func(request string) []byte {
		_, err := io.WriteString(to, request+"\n")
		require.NoError(tb, err)
		line, err := answers.ReadSlice('\n')
		require.NoError(tb, err)
		return line
	}
	return ask, func() {
		require.NoError(tb, to.Close())
		require.NoError(tb, <-ended)
	}
}

// BenchmarkToolLists encodes the lists of tools for clients.
func BenchmarkToolLists(b *testing.B) {
	n := startNode(b)
	s := n.face(speaking)
	few := server.Identity{Name: "user:ada", Role: server.Operator, Show: server.Selection{ReadOnly: true}}
	for _, test := range []struct {
		name, profile string
		who           server.Identity
	}{
		{"all", server.ProfileAll, server.Identity{Role: server.Operator}},
		{"all, few", server.ProfileAll, few},
		{"coding", server.ProfileCoding, server.Identity{Role: server.Operator}},
		{"coding, few", server.ProfileCoding, few},
		{"operations", server.ProfileOperations, few},
		{"network", server.ProfileNetwork, few},
	} {
		b.Run(test.name, func(b *testing.B) {
			list := s.OfferedTools()
			size := 0
			for b.Loop() {
				size = len(s.ListOf(test.profile, test.who, list))
			}
			require.NotZero(b, size)
			b.ReportMetric(float64(size), "list-bytes")
			b.ReportAllocs()
		})
	}
}

// BenchmarkStdio sends requests over stdio.
func BenchmarkStdio(b *testing.B) {
	for _, test := range []struct{ name, request string }{
		{"list", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`},
		{"call", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`},
	} {
		b.Run(test.name, func(b *testing.B) {
			ask, end := overStdio(b, startNode(b).face())
			defer end()
			ask(initialize)
			for b.Loop() {
				require.True(b, bytes.Contains(ask(test.request), []byte(`"result":`)))
			}
			b.ReportAllocs()
		})
	}
}
