package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/node"
)

// twoNodes returns an active node and a standby node.
func twoNodes() node.NodesReply {
	since := noon.Add(-time.Hour)
	return node.NodesReply{Cluster: true, Epoch: 42, Nodes: []election.View{
		{Info: election.Info{Host: "a", PID: 7, Version: "1", HTTP: "http://a:7424", Since: noon.Add(-2 * time.Hour)}, Seen: noon, Active: true, ActiveSince: &since},
		{Info: election.Info{Host: "b", PID: 8, Version: "1", Since: noon}, Seen: noon},
	}}
}

func TestClusterFindings(t *testing.T) {
	t.Parallel()
	says := func(r node.NodesReply) []finding {
		return clusterFindings(t.Context(), &fakeSession{asked: map[string]func(any) any{"members": func(any) any { return r }}})
	}
	found := says(twoNodes())
	assert.Len(t, found, 1)
	assert.True(t, found[0].OK)
	assert.Contains(t, found[0].Says, "a:7 is active since")
	assert.Contains(t, found[0].Says, "epoch 42")
	assert.Contains(t, found[0].Says, "1 node standing by")

	alone := twoNodes()
	alone.Nodes = alone.Nodes[:1]
	assert.Contains(t, says(alone)[0].Says, "no other node stands by")
	headless := twoNodes()
	headless.Nodes[0].Active, headless.Nodes[0].ActiveSince = false, nil
	assert.False(t, says(headless)[0].OK)
	assert.Contains(t, says(headless)[0].Says, "no node is active; 2 nodes standing by")
	mixed := twoNodes()
	mixed.Nodes[1].Version = "2"
	assert.False(t, says(mixed)[0].OK)
	assert.Empty(t, says(node.NodesReply{Nodes: alone.Nodes}), "an embedded server is no cluster")
	assert.Empty(t, clusterFindings(t.Context(), &fakeSession{}), "a node of an earlier version")
}
