// Command peers measures other task runners with the same jobs and harness as `orch bench`, and prints one table that
// includes orch's rows of the same run. Each system has a server, one worker process and a driver on one machine, and
// runs no-op jobs. scripts/bench-peers starts the servers.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	orch, redis, postgres, worker, report, systems string
	redisPID, postgresPID                          int
	length                                         time.Duration
	runs                                           int
}

func main() {
	var o options
	flag.StringVar(&o.orch, "orch", "bin/orch", "the orch program")
	flag.StringVar(&o.redis, "redis", "", "address of redis, host:port")
	flag.StringVar(&o.postgres, "postgres", "", "URL of an empty PostgreSQL database")
	flag.IntVar(&o.redisPID, "redis-pid", 0, "process of redis, for its CPU time")
	flag.IntVar(&o.postgresPID, "postgres-pid", 0, "first process of PostgreSQL, for its CPU time")
	flag.StringVar(&o.report, "report", "", "also write the figures as JSON into this file")
	flag.StringVar(&o.systems, "systems", "", "measure only peers whose names contain this text; use - to measure only orch")
	flag.DurationVar(&o.length, "for", 2*time.Second, "length of each measurement of a rate")
	flag.IntVar(&o.runs, "runs", 3, "how often each figure is taken; the median counts")
	flag.StringVar(&o.worker, "worker", "", "run as the worker process of this system")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	peers := peersOf(o)
	if o.worker != "" {
		for _, p := range peers {
			if p.name == o.worker {
				return work(ctx, p)
			}
		}
		return fmt.Errorf("there is no system %q", o.worker)
	}
	rows, err := orchRows(ctx, o)
	if err != nil {
		return err
	}
	for _, p := range peers {
		if !strings.Contains(p.name, o.systems) {
			continue
		}
		more, err := measure(ctx, o, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		rows = append(rows, more...)
	}
	if o.report != "" {
		data, err := json.MarshalIndent(rows, "", "  ")
		if err == nil {
			err = os.WriteFile(o.report, data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return printTable(os.Stdout, rows)
}

// orchRows runs `orch bench` and returns the rows that are also measured for the peers.
func orchRows(ctx context.Context, o options) ([]row, error) {
	file, err := os.CreateTemp("", "orch-bench-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	cmd := exec.CommandContext(ctx, o.orch, "bench", "--rows", strings.Join(figureIDs(), ","),
		"--for", o.length.String(), "--runs", fmt.Sprint(o.runs), "--report", file.Name())
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("orch bench: %w", err)
	}
	var report struct {
		Rows []struct {
			row

			Durability string `json:"durability"`
		} `json:"rows"`
	}
	if err := json.NewDecoder(file).Decode(&report); err != nil {
		return nil, fmt.Errorf("the report of orch bench: %w", err)
	}
	var rows []row
	for _, r := range report.Rows {
		r.System = "orch, " + r.Durability
		rows = append(rows, r.row)
	}
	return rows, nil
}
