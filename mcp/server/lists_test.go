package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

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
