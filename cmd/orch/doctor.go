package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/internal/proc"
)

// doctorCommands are the commands that find and repair problems.
type doctorCommands struct {
	*connector

	defined *definitions
}

// writable is W_OK of access(2).
const writable = 2

func newDoctor(c *doctorCommands) *cobra.Command {
	salvage := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Probe every part and say what to mend",
		Long: `Probe every part and say what to mend.

With --salvage, and while no node runs, records of the store that are damaged are cut out, and the tasks that they belong to are
given up; everything else goes on. Copies of all that is changed, and a line for each record, go to the folder aside of
the data directory. A backup is better where there is one: orch restore.`,
		Example: "  orch doctor\n  orch doctor --salvage",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if salvage {
				return c.salvage(cmd.Context())
			}
			return c.doctor(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&salvage, "salvage", false, "give up the tasks of which a record is damaged, so that all else goes on")
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (c *doctorCommands) doctor(ctx context.Context) error {
	findings := []finding{probeVersion(), c.probeData(), c.probeDisk(), c.probeRoot(), c.probeWorking(), probeSandbox(c.cfg.Confinement.Sandbox, proc.Probe())}
	findings = append(findings, probeProgram(ctx, "git"), probeProgram(ctx, "bash"))
	findings = append(findings, c.probeSecrets()...)
	findings = append(findings, c.probeStoreVersion()...)
	findings = append(findings, c.probeFiles(ctx)...)
	findings = append(findings, c.probeServers(ctx)...)
	findings = append(findings, c.probeNode(ctx)...)
	if err := c.showFindings(findings); err != nil {
		return err
	}
	for _, f := range findings {
		if !f.OK {
			return &exitError{exit: exitInternal}
		}
	}
	return nil
}

func (c *doctorCommands) showFindings(findings []finding) error {
	v := view{data: findings, rows: rowsOf(findings)}
	for _, f := range findings {
		if !f.OK {
			v.names = append(v.names, f.Part)
		}
	}
	style := c.style(c.outTTY)
	v.text = func(w io.Writer) error {
		var lines []string
		for _, f := range findings {
			mark := style.Good("OK  ")
			if !f.OK {
				mark = style.Bad("FAIL")
			}
			lines = append(lines, fmt.Sprintf("%s  %-14s  %s", mark, f.Part, screen.Escape(f.Says)))
			if f.Mend != "" {
				lines = append(lines, strings.Repeat(" ", 22)+"mend: "+screen.Escape(f.Mend))
			}
		}
		return writeLines(w, lines)
	}
	return c.emit(v)
}

// probeData checks the data directory and its permissions.
func (c *doctorCommands) probeData() finding {
	const part = "data directory"
	info, err := os.Stat(c.cfg.DataDir)
	switch {
	case os.IsNotExist(err):
		return fine(part, "%s does not exist yet; the first task makes it", c.cfg.DataDir)
	case err != nil:
		return bad(part, err.Error(), "give yourself access to it, or choose another one: --data-dir")
	case !info.IsDir():
		return bad(part, c.cfg.DataDir+" is not a directory", "choose another one: --data-dir")
	case info.Mode().Perm()&0o077 != 0:
		return bad(part, fmt.Sprintf("%s is open to others (mode %o)", c.cfg.DataDir, info.Mode().Perm()), "chmod 700 "+c.cfg.DataDir)
	case syscall.Access(c.cfg.DataDir, writable) != nil:
		return unwritable(part, c.cfg.DataDir, "or choose another one: --data-dir")
	default:
		return fine(part, "%s", c.cfg.DataDir)
	}
}

// nearestExisting returns the nearest directory above path that exists.
func nearestExisting(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// probeDisk checks the free disk space. It warns before the space is so low that the log refuses appends.
func (c *doctorCommands) probeDisk() finding {
	const part, timely = "disk", 2
	var fs syscall.Statfs_t
	dir := nearestExisting(c.cfg.DataDir)
	if err := syscall.Statfs(dir, &fs); err != nil {
		return bad(part, err.Error(), "check the disk of "+dir)
	}
	free, least := int64(fs.Bavail)*fs.Bsize, int64(c.cfg.Storage.MinFree)<<20 //nolint:gosec // no disk has 2^63 bytes
	if least == 0 {
		least = bus.DefaultMinFree(int64(fs.Blocks) * fs.Bsize) //nolint:gosec // the same
	}
	text := fmt.Sprintf("%s MiB free for %s", screen.Number(int(free>>20)), c.cfg.DataDir)
	if free < timely*least {
		text += fmt.Sprintf("; below %s MiB (min_free) the log takes nothing", screen.Number(int(least>>20)))
		return bad(part, text, "free some space, or choose another disk: --data-dir")
	}
	return fine(part, "%s", text)
}

func (c *doctorCommands) probeRoot() finding {
	const part = "root"
	info, err := os.Stat(c.cfg.Root)
	switch {
	case err != nil:
		return bad(part, err.Error(), "choose a directory that exists: --root")
	case !info.IsDir():
		return bad(part, c.cfg.Root+" is not a directory", "choose a directory: --root")
	case c.cfg.Confinement.ReadOnly:
		return fine(part, "%s, read-only", c.cfg.Root)
	case syscall.Access(c.cfg.Root, writable) != nil:
		return unwritable(part, c.cfg.Root, "or run read-only: --read-only")
	default:
		return fine(part, "%s", c.cfg.Root)
	}
}

// unwritable returns the finding for a directory that cannot be written. instead is an alternative to making it writable.
func unwritable(part, dir, instead string) finding {
	if errors.Is(syscall.Access(dir, writable), syscall.EROFS) {
		return bad(part, dir+" is on a file system that is mounted read-only", "mount it writable, "+instead)
	}
	return bad(part, dir+" is not writable", "chown or chmod it, "+instead)
}

func (c *doctorCommands) probeWorking() finding {
	const part = "workspaces"
	dir := filepath.Join(c.cfg.Root, "Working")
	if syscall.Access(nearestExisting(dir), writable) != nil {
		return unwritable(part, nearestExisting(dir), "or choose another --root: tasks keep their workspaces there")
	}
	return fine(part, "%s", dir)
}

// probeSandbox reports which restrictions the kernel can enforce in a mode of the sandbox.
func probeSandbox(sandbox string, has proc.Support) finding {
	const part = "sandbox"
	const help = "use Linux 6.12 or newer with Landlock, or run them behind the walls that there are: --sandbox best-effort"
	switch mode := proc.Mode(sandbox); {
	case mode == proc.Off:
		return fine(part, "off: programs of tools may do all that this user may")
	case has.Enough(cmp.Or(mode, proc.Enforce)) && has.Enough(proc.Enforce):
		return fine(part, "%s: %s, limits, no new privileges", mode, has)
	case mode == proc.BestEffort:
		return fine(part, "best-effort, and not all that it should be: %s", has)
	case has.Enough(proc.Enforce):
		return bad(part, "programs of tools are refused, because this process cannot make mount namespaces: "+has.String(),
			"start it as root, or in a user namespace: unshare --user --map-current-user --mount --keep-caps orch serve; or use --sandbox enforce")
	default:
		return bad(part, "programs of tools are refused: "+has.String(), help)
	}
}

// probeSecrets checks that the secrets of the settings can be read. The findings contain only their locations.
func (c *doctorCommands) probeSecrets() []finding {
	var findings []finding
	places := c.cfg.Tools.Secrets()
	for _, name := range slices.Sorted(maps.Keys(places)) {
		if _, err := places[name].Read(c.getenv); err != nil {
			findings = append(findings, failed(name, err, "put the secret there, with mode 600 if it is a file, or name another place"))
			continue
		}
		findings = append(findings, fine(name, "%s", places[name]))
	}
	return findings
}

func probeVersion() finding {
	v := readVersion()
	return fine("version", "orch %s (%s), NATS server %s, %s, %s", v.Version, v.commit(), cmp.Or(v.NATS, "unknown"), v.Go, v.Platform)
}

// shownProblems limits the problems that the doctor shows for one store; orch verify shows all.
const shownProblems = 5

// probeFiles checks every record of the store's files.
func (c *doctorCommands) probeFiles(ctx context.Context) []finding {
	const part = "store files"
	if c.cfg.Server != "" || c.cfg.Storage.NATS != "" {
		return nil // an external server has its files elsewhere
	}
	v, err := c.nodes.Inspect(ctx, c.cfg)
	if err != nil {
		return []finding{failed(part, err, "check the disk and the rights of "+c.cfg.DataDir)}
	}
	if v.Found == 0 && v.Lost != nil {
		return []finding{fine(part, "every record is as it was written; given up to damage before: %s", lostText(v.Lost))}
	}
	if v.Found == 0 && len(v.Mended) > 0 {
		return []finding{fine(part, "nothing is lost; the next start mends: %s", v.Mended[0])}
	}
	if v.Found == 0 {
		return []finding{fine(part, "every record is as it was written; orch verify also checks the histories")}
	}
	const mend = "keep them as they are; orch verify names all that is damaged, orch restore FILE --replace brings a backup back; " +
		"without one orch doctor --salvage gives up the tasks concerned"
	var findings []finding
	for _, text := range v.Problems[:min(len(v.Problems), shownProblems)] {
		findings = append(findings, bad(part, text, mend))
	}
	return findings
}

// probeProgram checks that a program exists and runs.
func probeProgram(ctx context.Context, name string) finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, "--version").Output()
	if err != nil {
		return bad(name, err.Error(), "install "+name+", or leave out the tools that need it")
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return fine(name, "%s", first)
}

// probeNode checks whether a node runs or can be started, its store, durability and workers, and the clock against the log.
func (c *doctorCommands) probeNode(ctx context.Context) []finding {
	s, err := c.nodes.Dial(ctx, c.cfg)
	switch {
	case err == nil:
	case !fault.Has(err, fault.Unavailable):
		return []finding{failed("node", err, "see the log of the node")}
	case !isDir(c.cfg.DataDir):
		return []finding{fine("node", "none runs; a task starts one")}
	default:
		if s, err = c.nodes.Open(ctx, c.cfg, idle); err != nil {
			return []finding{failed("node", err, "end the process that holds the data directory, or choose another one: --data-dir")}
		}
	}
	findings := c.probeStatus(ctx, s)
	if err := closeSession(ctx, s); err != nil {
		findings = append(findings, failed("stop", err, "see the log of the node"))
	}
	return findings
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (c *doctorCommands) probeStatus(ctx context.Context, s session) []finding {
	status, err := c.statusOf(ctx, s)
	if err != nil {
		return []finding{failed("node", err, "start it again: orch serve")}
	}
	findings := []finding{nodeFinding(s, status)}
	findings = append(findings, storeFinding(status), workerFinding(s, status))
	findings = append(findings, agentFindings(ctx, s)...)
	findings = append(findings, clusterFindings(ctx, s)...)
	findings = append(findings, providerFindings(status)...)
	findings = append(findings, traceFindings(status.Traces)...)
	findings = append(findings, hookFindings(ctx, s)...)
	findings = append(findings, destinationFindings(ctx, s)...)
	for _, h := range status.Paused {
		findings = append(findings, fine("pause", "%s", pauseText(h)))
	}
	return append(findings, c.probeClock(ctx, s))
}

// statusOf returns the status of a node. The worker of a node starts last, so a node that has just started is asked again until it
// has one.
func (c *doctorCommands) statusOf(ctx context.Context, s session) (api.StatusReply, error) {
	const starting, between = 2 * time.Second, 50 * time.Millisecond
	for {
		status, err := s.Status(ctx, api.StatusRequest{})
		if err != nil || s.Embedded() || len(status.Workers) > 0 || c.now().Sub(status.StartedAt) > starting {
			return status, err
		}
		if err := pause.For(ctx, between); err != nil {
			return status, fault.From(err)
		}
	}
}

// syncText describes how the log is synced.
func syncText(syncing string) string {
	switch syncing {
	case "group":
		return "one sync for all commits that wait"
	case "always":
		return "the server syncs every write"
	case "interval":
		return "the server syncs every 100 ms"
	default:
		return "the NATS server decides: sync_interval is 2 minutes unless its configuration says sync_interval: always"
	}
}

func nodeFinding(s session, status api.StatusReply) finding {
	switch {
	case s.Embedded():
		return fine("node", "none runs, and one could: %d open tasks", status.Open)
	case !status.Ready:
		return bad("node", "it runs, and is not ready", "wait a moment, then see its log")
	default:
		return fine("node", "runs version %s since %s: %d open tasks, %d running calls", status.Version, stamp(status.StartedAt), status.Open, status.Running)
	}
}

// storeFinding reports whether the log accepts appends. If not, it contains the reason, the time, and what to do.
func storeFinding(status api.StatusReply) finding {
	const part = "store"
	r := status.Refusing
	switch {
	case status.Store == "ok":
		return fine(part, "ok, durability %s (%s)", status.Durability, syncText(status.Syncing))
	case r == nil: // a node of an earlier version
		return bad(part, status.Store, "see the log of the node")
	case r.Since.IsZero():
		return bad(part, "it takes nothing: "+status.Store, cmp.Or(r.Hint, "see the log of the node"))
	default:
		return bad(part, "it takes nothing since "+stamp(r.Since)+": "+status.Store, cmp.Or(r.Hint, "see the log of the node"))
	}
}

func workerFinding(s session, status api.StatusReply) finding {
	const part, mend = "worker", "start one: orch worker"
	workers := slices.DeleteFunc(slices.Clone(status.Workers), func(w api.WorkerView) bool {
		return strings.HasPrefix(w.Name, agents.Prefix)
	})
	switch {
	case s.Embedded():
		return fine(part, "starts with the task")
	case len(workers) == 0:
		return bad(part, "the node has none, so no call can run", mend)
	}
	var gone []string
	for _, w := range workers {
		if w.Silent {
			gone = append(gone, fmt.Sprintf("; %s is gone, last heard of at %s", w.Name, stamp(w.SeenAt)))
		}
	}
	there := len(workers) - len(gone)
	if there == 0 {
		return bad(part, "the node has none any more, so no call can run"+strings.Join(gone, ""), mend)
	}
	return fine(part, "%s%s", screen.Plural(there, "worker"), strings.Join(gone, ""))
}

// agentFindings reports the state of the registered agents; it returns nothing if there are none.
func agentFindings(ctx context.Context, s session) []finding {
	const part = "agents"
	all, err := s.Agents(ctx)
	switch {
	case err != nil:
		return []finding{failed(part, err, "see the log of the node")}
	case len(all) == 0:
		return nil
	case s.Embedded():
		return []finding{fine(part, "%d registered; no node runs that could hear of them", len(all))}
	}
	count := map[string]int{}
	for _, v := range all {
		count[string(v.Status)]++
	}
	var texts []string
	for _, status := range slices.Sorted(maps.Keys(count)) {
		texts = append(texts, fmt.Sprintf("%d %s", count[status], status))
	}
	return []finding{fine(part, "%d registered: %s", len(all), strings.Join(texts, ", "))}
}

// providerFindings returns a finding for each provider of models that is not asked at the moment, because it has failed again and again.
func providerFindings(status api.StatusReply) (all []finding) {
	for _, p := range status.Providers {
		if p.Until == nil {
			continue
		}
		says := fmt.Sprintf("%s has failed %d times in a row and is asked again at %s: %s", p.Name, p.Failures, p.Until.UTC().Format(time.RFC3339), p.Error)
		all = append(all, bad("models", says, "check the provider: orch models test "+p.Name+"/MODEL"))
	}
	return all
}

// traceFindings returns a finding about the export of traces, if there is one.
func traceFindings(t *api.TracesView) []finding {
	const part = "traces"
	switch {
	case t == nil || t.To == "":
		return nil
	case t.Error == "" && t.Refused > 0:
		says := fmt.Sprintf("%s has refused %s since the node started, and taken %s", t.To, screen.Plural(t.Refused, "span"), screen.Number(t.Sent))
		return []finding{bad(part, says, "see the log of the node (spans_refused) and that of the collector")}
	case t.Error == "":
		return []finding{fine(part, "%s has got %s since the node started", t.To, screen.Plural(t.Sent, "span"))}
	case t.Waiting == 0:
		return []finding{bad(part, "the export fails since "+stamp(t.FailingSince)+": "+t.Error, cmp.Or(t.Hint, "see the log of the node"))}
	default:
		says := fmt.Sprintf("%s gets nothing since %s: %s; tasks wait that have ended since %s", t.To, stamp(t.FailingSince), t.Error, stamp(t.Oldest))
		return []finding{bad(part, says, cmp.Or(t.Hint, "start the collector, or change traces_to")+"; the log keeps what waits")}
	}
}

// probeClock detects a clock that was set back: the newest task would be in the future.
func (c *doctorCommands) probeClock(ctx context.Context, s session) finding {
	const part, tolerance = "clock", 5 * time.Second
	list, err := s.List(ctx, api.ListRequest{Limit: 1})
	if err != nil {
		return failed(part, err, "see the log of the node")
	}
	now := c.now()
	if len(list.Tasks) > 0 && list.Tasks[0].UpdatedAt.After(now.Add(tolerance)) {
		return bad(part, fmt.Sprintf("it is %s, and the newest task changed at %s", stamp(now), stamp(list.Tasks[0].UpdatedAt)), "set the clock of the machine right")
	}
	return fine(part, "%s", stamp(now))
}
