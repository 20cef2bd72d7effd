// Command peers measures other task runners with the same jobs and harness as `orch bench`, and prints one table that
// includes orch's rows of the same run. Each system has a server, one worker process and a driver on one machine, and
// runs no-op jobs. scripts/bench-peers installs the servers.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	orch, dir, worker, report, systems, rows string
	// The addresses are chosen by the program, and passed on to its workers.
	redis, postgres, restate string
	restateServer            string
	length                   time.Duration
	runs                     int
}

// workerArgs returns the arguments of the worker process of a system.
func (o options) workerArgs(name string) []string {
	return []string{"--worker", name, "--redis", o.redis, "--postgres", o.postgres, "--restate", o.restate, "--restate-server", o.restateServer}
}

// wants reports whether a figure was asked for.
func (o options) wants(id string) bool {
	return o.rows == "" || slices.ContainsFunc(strings.Split(o.rows, ","), func(wanted string) bool { return strings.HasPrefix(id, wanted) })
}

func main() {
	var o options
	flag.StringVar(&o.orch, "orch", "bin/orch", "the orch program")
	flag.StringVar(&o.dir, "dir", "", "directory for the data of the servers; default: a temporary directory")
	flag.StringVar(&o.rows, "rows", "", "measure only figures whose ids begin with these, separated by commas")
	flag.StringVar(&o.redis, "redis", freeAddress(), "address of redis, host:port")
	flag.StringVar(&o.postgres, "postgres", freeAddress(), "address of PostgreSQL, host:port")
	flag.StringVar(&o.restate, "restate", newRestateAddresses(), "four addresses for Restate: ingress, admin, node and worker")
	flag.StringVar(&o.restateServer, "restate-server", "", "the program of Restate; without it Restate is not measured")
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
	if o.worker != "" {
		for _, p := range peersOf(o) {
			if p.name == o.worker {
				return work(ctx, p)
			}
		}
		return fmt.Errorf("there is no system %q", o.worker)
	}
	dir, err := os.MkdirTemp(o.dir, "orch-peers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	rows, err := orchRows(ctx, o)
	if err != nil {
		return err
	}
	for _, p := range peersOf(o) {
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
	ids := slices.DeleteFunc(figureIDs(), func(id string) bool { return !o.wants(id) })
	cmd := exec.CommandContext(ctx, o.orch, "bench", "--rows", strings.Join(ids, ","), "--dir", o.dir,
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
