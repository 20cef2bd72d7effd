package bus_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/rpc"
)

// levels runs a benchmark at both durability levels.
func levels(b *testing.B, run func(b *testing.B, n *bustest.Node)) {
	b.Helper()
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		b.Run(string(level), func(b *testing.B) {
			run(b, bustest.NewNode(b, bus.ServerConfig{Durability: level}))
		})
	}
}

// firstCommits are prepared outside of the measured time.
func firstCommits(b *testing.B, n int) []events.Record {
	b.Helper()
	records := make([]events.Record, n)
	for i := range records {
		records[i] = eventstest.NewChain().Next(b, "node")
	}
	return records
}

// BenchmarkAppendAlone measures one append at a time.
func BenchmarkAppendAlone(b *testing.B) {
	levels(b, func(b *testing.B, n *bustest.Node) {
		b.Helper()
		records := firstCommits(b, b.N)
		b.ResetTimer()
		for _, r := range records {
			_, err := eventstest.Append(n, r)
			require.NoError(b, err)
		}
		perSecond(b)
	})
}

// BenchmarkAppend measures appends with up to so many in flight.
func BenchmarkAppend(b *testing.B) {
	for _, inFlight := range []int{16, 64, 500, 4000} {
		b.Run(strconv.Itoa(inFlight), func(b *testing.B) {
			levels(b, func(b *testing.B, n *bustest.Node) {
				b.Helper()
				records := firstCommits(b, b.N)
				slots := make(chan struct{}, inFlight)
				var answered sync.WaitGroup
				answered.Add(len(records))
				b.ResetTimer()
				for _, r := range records {
					slots <- struct{}{}
					n.Append(r, func(_ uint64, err error) {
						if err != nil {
							b.Error(err)
						}
						<-slots
						answered.Done()
					})
				}
				answered.Wait()
				perSecond(b)
			})
		})
	}
}

// BenchmarkBare is the pattern that appends are compared with: conditional publishes of the same
// bytes through the client library, 4,000 in flight, nothing around them.
func BenchmarkBare(b *testing.B) {
	levels(b, func(b *testing.B, n *bustest.Node) {
		b.Helper()
		nc, err := nats.Connect("", nats.InProcessServer(n.Server), bustest.Operator(b, n.Config.DataDir))
		require.NoError(b, err)
		defer nc.Close()
		js, err := jetstream.New(nc)
		require.NoError(b, err)
		_, err = js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "BARE", Subjects: []string{"bare.*"}})
		require.NoError(b, err)
		records := firstCommits(b, b.N)
		var window []jetstream.PubAckFuture
		b.ResetTimer()
		for _, r := range records {
			if len(window) == 4000 {
				<-window[0].Ok()
				window = window[1:]
			}
			m := &nats.Msg{Subject: "bare." + string(r.Task), Data: r.Data}
			f, err := js.PublishMsgAsync(m, jetstream.WithExpectLastSequencePerSubject(0))
			require.NoError(b, err)
			window = append(window, f)
		}
		<-js.PublishAsyncComplete()
		perSecond(b)
	})
}

// BenchmarkHeads measures the scan of a restart.
func BenchmarkHeads(b *testing.B) {
	const tasks = 100_000
	n := bustest.NewNode(b, bus.ServerConfig{Durability: bus.Relaxed})
	var answered sync.WaitGroup
	answered.Add(tasks)
	for _, r := range firstCommits(b, tasks) {
		n.Append(r, func(_ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
			answered.Done()
		})
	}
	answered.Wait()
	for b.Loop() {
		require.Len(b, eventstest.HeadsOf(b, n), tasks)
	}
	b.ReportMetric(float64(tasks)*float64(b.N)/b.Elapsed().Seconds(), "heads/s")
}

// BenchmarkRead measures a whole history.
func BenchmarkRead(b *testing.B) {
	for _, commits := range []int{10, 1000, 100_000} {
		b.Run(strconv.Itoa(commits), func(b *testing.B) {
			n := bustest.NewNode(b, bus.ServerConfig{Durability: bus.Relaxed})
			c := eventstest.NewChain()
			c.Grow(b, n, commits)
			for b.Loop() {
				require.Len(b, eventstest.History(b, n, c.Task, 1), commits)
			}
		})
	}
}

// BenchmarkScan measures all commits of many tasks.
func BenchmarkScan(b *testing.B) {
	const tasks, commits = 4000, 8
	n := bustest.NewNode(b, bus.ServerConfig{Durability: bus.Relaxed})
	var growing sync.WaitGroup
	for range 16 {
		growing.Go(func() {
			for range tasks / 16 {
				eventstest.NewChain().Grow(b, n, commits)
			}
		})
	}
	growing.Wait()
	for b.Loop() {
		count := 0
		for _, err := range n.Scan(b.Context(), 0) {
			require.NoError(b, err)
			count++
		}
		require.Equal(b, tasks*commits, count)
	}
	b.ReportMetric(float64(tasks*commits)*float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkCall measures a request and its answer.
func BenchmarkCall(b *testing.B) {
	type text struct{ Text string }
	n := bustest.NewNode(b, bus.ServerConfig{})
	end, err := rpc.Serve(n.Conn, bus.CommandPrefix, map[string]rpc.Method{
		"echo": rpc.Handle(echo[text]),
	}, rpc.EndpointConfig{})
	require.NoError(b, err)
	defer func() { require.NoError(b, end.Close(b.Context())) }()
	c, err := bus.Dial(b.Context(), bus.DialConfig{DataDir: n.Config.DataDir})
	require.NoError(b, err)
	defer c.Close()
	for b.Loop() {
		var out text
		require.NoError(b, rpc.Call(b.Context(), c, bus.CommandPrefix+".echo", text{"hello"}, &out))
	}
}

// BenchmarkStart measures the cold start of server and store on a new directory.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		n := &bustest.Node{Config: bus.ServerConfig{DataDir: b.TempDir()}}
		began := time.Now()
		n.Start(b)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "start-ms")
		n.Stop(b)
	}
}

func perSecond(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// BenchmarkReadNothing reads tasks that do not exist, from a store that has removed many.
func BenchmarkReadNothing(b *testing.B) {
	const removed, part = 200_000, 10_000
	n := bustest.NewNode(b, bus.ServerConfig{Durability: bus.Relaxed})
	for range removed / part {
		tasks := make([]events.TaskID, part)
		for i := range tasks {
			tasks[i] = events.NewTaskID(time.Now())
		}
		require.NoError(b, n.RecordAllRemoved(b.Context(), tasks))
	}
	read := func() {
		for _, err := range n.Read(b.Context(), events.NewTaskID(time.Now().Add(-time.Hour)), 1) {
			b.Fatal("there is no such task", err)
		}
	}
	for range 2_000 { // reaches most subjects of records
		read()
	}
	for b.Loop() {
		read()
	}
}
