package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/embedded"
)

const (
	// powerCuts is the number of power cuts on default settings.
	powerCuts = "ORCH_POWER_CUTS"
	// powerDir has the load run on a data directory, at powerLevel, with powerSkip without any sync, with powerOld on tasks that are old.
	powerDir   = "ORCH_POWER_DIR"
	powerOld   = "ORCH_POWER_OLD"
	powerLevel = "ORCH_POWER_LEVEL"
	powerSkip  = "ORCH_POWER_SKIP"

	powerDisk = 2 << 30 // bytes
)

// TestPowerLoad is the process whose power is cut: it writes commits, blobs, checkpoints, archives and messages,
// removes archived tasks, and prints a line for everything that was acknowledged.
func TestPowerLoad(t *testing.T) { //nolint:paralleltest // a child process that runs nothing else
	dir := os.Getenv(powerDir)
	if dir == "" {
		return
	}
	cfg := bus.ServerConfig{DataDir: dir, Durability: bus.Durability(os.Getenv(powerLevel))}
	if os.Getenv(powerSkip) != "" {
		cfg.Sync = func(*os.File) error { return nil }
	}
	n := bustest.NewNode(t, cfg)
	mail := openMessages(t, n, messages.Config{})
	acks := make(chan string, 4096)
	if os.Getenv(powerOld) != "" {
		go loadOld(t, n, acks)
	} else {
		loadAll(t, n, mail, acks)
	}
	for line := range acks {
		_, _ = fmt.Fprintf(os.Stdout, "ACK %d %s\n", time.Now().UnixMilli(), line)
	}
}

// loadAll writes everything, without end.
func loadAll(t *testing.T, n *bustest.Node, mail *bus.Messages, acks chan<- string) {
	t.Helper()
	for range 16 {
		go func() {
			for {
				loadOne(t, n, mail, acks)
			}
		}()
	}
	for kind, d := range databasesOf(n) {
		go loadDatabase(t, kind, d, acks)
	}
}

// loadOne writes one task: some commits, and sometimes data beside them.
func loadOne(t *testing.T, n *bustest.Node, mail *bus.Messages, acks chan<- string) {
	t.Helper()
	c := eventstest.NewChain()
	for range 1 + rand.IntN(6) {
		r := c.Next(t, strings.Repeat("x", rand.IntN(2000)))
		seq, err := eventstest.Append(n, r)
		if !assert.NoError(t, err) { //nolint:testifylint // not in the goroutine of the test
			return
		}
		c.Accept(r, seq)
		acks <- fmt.Sprintf("commit %s %d %s", c.Task, r.Rev, events.Hash(r.Data))
	}
	switch rand.IntN(20) {
	case 0, 1, 2:
		if assert.NoError(t, n.Archive(t.Context(), c.Task)) {
			acks <- fmt.Sprintf("archive %s 0 -", c.Task)
		}
	case 3:
		ref, err := n.Put(t.Context(), []byte(strings.Repeat(string(c.Task), 1+rand.IntN(5000))))
		if assert.NoError(t, err) {
			acks <- fmt.Sprintf("blob %s 0 %s", c.Task, ref)
		}
	case 4:
		_, err := n.Save(t.Context(), c.Task, "point", []byte(c.Task))
		if assert.NoError(t, err) {
			acks <- fmt.Sprintf("point %s 0 -", c.Task)
		}
	case 5, 6:
		loadMessage(t, mail, c.Task, acks)
	case 7:
		loadRemoval(t, n, acks)
	}
}

// oldTasks is the number of tasks that loadOld makes, each with oldCommits. They take several blocks of the log.
const oldTasks, oldCommits = 1500, 6

// loadOld makes tasks, waits until even a relaxed node has them on the disk, and archives them.
func loadOld(t *testing.T, n *bustest.Node, acks chan<- string) {
	t.Helper()
	var tasks []events.TaskID
	for range oldTasks {
		c := eventstest.NewChain()
		for range oldCommits {
			r := c.Next(t, noise(2000))
			seq, err := eventstest.Append(n, r)
			if !assert.NoError(t, err) { //nolint:testifylint // not in the goroutine of the test
				return
			}
			c.Accept(r, seq)
			acks <- fmt.Sprintf("commit %s %d %s", c.Task, r.Rev, events.Hash(r.Data))
		}
		tasks = append(tasks, c.Task)
	}
	<-time.After(2*bus.RelaxedEvery + 2*time.Second)
	for part := range slices.Chunk(tasks, oldTasks/16+1) {
		go func() {
			for _, task := range part {
				if assert.NoError(t, n.Archive(t.Context(), task)) {
					acks <- fmt.Sprintf("archive %s 0 -", task)
				}
			}
		}()
	}
}

// loadRemoval archives a task beside others, and removes it.
func loadRemoval(t *testing.T, n *bustest.Node, acks chan<- string) {
	t.Helper()
	c := eventstest.NewChain()
	_, err := eventstest.Append(n, c.Next(t, "node"))
	if err == nil {
		err = n.Archive(t.Context(), c.Task)
	}
	if err == nil {
		err = n.Remove(t.Context(), []events.TaskID{c.Task})
	}
	if assert.NoError(t, err) {
		acks <- fmt.Sprintf("removed %s 0 -", c.Task)
	}
}

// loadMessage sends a message to an agent that gets no other, and may acknowledge it.
func loadMessage(t *testing.T, mail *bus.Messages, task events.TaskID, acks chan<- string) {
	t.Helper()
	who := "agent:" + string(task)
	r, err := mail.Send(t.Context(), "user:ada", messages.Draft{To: []string{who}, Payload: []byte(`"` + strings.Repeat("x", rand.IntN(2000)) + `"`)})
	if !assert.NoError(t, err) { //nolint:testifylint // not in the goroutine of the test
		return
	}
	if rand.IntN(2) == 0 {
		acks <- fmt.Sprintf("message %s 0 %s", task, r.ID)
		return
	}
	_, err = mail.Ack(t.Context(), who, []string{r.ID})
	if assert.NoError(t, err) {
		acks <- fmt.Sprintf("taken %s 0 %s", task, r.ID)
	}
}

// databasesOf opens the databases of a node, which take a snapshot every few writes.
func databasesOf(n *bustest.Node) map[string]*embedded.Database {
	cfg := func(name string) embedded.Config {
		return embedded.Config{Entries: 20, Journal: func(ctx context.Context) (embedded.Journal, error) { return n.OpenJournal(ctx, name) }}
	}
	return map[string]*embedded.Database{
		"realtime": embedded.NewRealtime(cfg(bus.RealtimeJournal)), "firestore": embedded.NewFirestore(cfg(bus.FirestoreJournal)),
	}
}

// loadDatabase writes to places of a database, and sometimes removes one.
func loadDatabase(t *testing.T, kind string, d *embedded.Database, acks chan<- string) {
	t.Helper()
	for number := 1; ; number++ {
		task := events.NewTaskID(time.Now())
		write := func(w firebase.Write) bool {
			_, err := d.Write(t.Context(), "places/"+string(task), w)
			return assert.NoError(t, err)
		}
		switch {
		case !write(setTo(map[string]any{"n": float64(number)})):
			return
		case number%10 == 0:
			write(firebase.Write{Operation: firebase.Delete})
		default:
			acks <- fmt.Sprintf("%s %s %d -", kind, task, number)
		}
	}
}

// ack is one line of the journal.
type ack struct {
	at   int64 // ms since 1970
	kind string
	task events.TaskID
	rev  uint64
	text string
}

// journal collects the acknowledgements of a process, outside of it.
type journal struct {
	mu   sync.Mutex
	acks []ack
}

func (j *journal) read(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var a ack
		if n, _ := fmt.Sscanf(lines.Text(), "ACK %d %s %s %d %s", &a.at, &a.kind, &a.task, &a.rev, &a.text); n == 5 {
			j.mu.Lock()
			j.acks = append(j.acks, a)
			j.mu.Unlock()
		}
	}
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.acks)
}

// machine is a file system in an image file, and the processes that have run on it.
type machine struct {
	image, root string
	journal     journal
	env         []string
}

func newMachine(t *testing.T, size int64, env ...string) *machine {
	t.Helper()
	m := &machine{image: filepath.Join(t.TempDir(), "disk.img"), root: t.TempDir(), env: env}
	require.NoError(t, os.WriteFile(m.image, nil, 0o600))
	require.NoError(t, os.Truncate(m.image, size))
	need.Program(t, "mkfs.ext4", "mount")
	need.That(t, "mount", os.Geteuid() == 0)
	out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", m.image).CombinedOutput()
	require.NoError(t, err, "%s", out)
	mountImage(t, m.image, m.root)
	return m
}

// mountImage mounts an image file until the test ends or the returned function is called.
func mountImage(t *testing.T, image, dir string) (unmount func()) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "mount", "-o", "loop,commit=300", image, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var once sync.Once
	unmount = func() { once.Do(func() { unmountFree(t, dir) }) }
	t.Cleanup(unmount)
	return unmount
}

// unmountFree unmounts a file system once it is free. A process that another test starts has the files that are open here until it runs its
// program.
func unmountFree(t *testing.T, dir string) {
	t.Helper()
	var err error
	assert.Eventually(t, func() bool {
		err = syscall.Unmount(dir, 0)
		return !errors.Is(err, syscall.EBUSY)
	}, 20*time.Second, 10*time.Millisecond)
	assert.NoError(t, err)
}

// cut lets a process run until it has acknowledged least things, and a moment longer. Then it suspends it, takes
// the state of the disk without the kernel's unwritten pages, and returns it with everything that had been
// acknowledged. Nothing may be written while the state is taken, or its parts would be of different
// moments; that is why the process is suspended, and why the file system does not commit by itself.
func (m *machine) cut(t *testing.T, least int, moment time.Duration) (image string, acked []ack, at int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPowerLoad$")
	cmd.Env = append(append(os.Environ(), powerDir+"="+filepath.Join(m.root, "data")), m.env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // after a failure the process would still use the file system
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var reading sync.WaitGroup
	reading.Go(func() { m.journal.read(out) })
	before := m.journal.len()
	require.Eventually(t, func() bool { return m.journal.len() >= before+least }, 5*time.Minute, time.Millisecond)
	<-time.After(moment)
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err = syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
	at = time.Now().UnixMilli()
	image = filepath.Join(t.TempDir(), "copy.img")
	text, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", m.image, image).CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.NoError(t, cmd.Process.Kill())
	reading.Wait()
	require.Error(t, cmd.Wait(), "it was killed")
	return image, slices.Clone(m.journal.acks), at
}

// outcome compares the content of a node with what was acknowledged.
type outcome struct {
	commits, missing int
	// oldest is the age of the oldest missing thing at the cut.
	oldest  time.Duration
	refusal string
	problem string
}

// recover starts a node on the state of the disk after a cut and compares it with the journal.
func (m *machine) recover(t *testing.T, level bus.Durability, image string, acked []ack, at int64) outcome {
	t.Helper()
	root := t.TempDir()
	unmount := mountImage(t, image, root)
	defer func() {
		unmount()
		assert.NoError(t, os.Remove(image))
	}()
	o := outcome{commits: len(acked)}
	cfg := bus.ServerConfig{DataDir: filepath.Join(root, "data"), Durability: level}
	if server, err := bus.StartServer(t.Context(), cfg); fault.Has(err, fault.DataLoss) {
		o.refusal, o.missing = err.Error(), len(acked)
		report, err := bus.Inspect(t.Context(), cfg.DataDir)
		t.Logf("%v: %+v", err, report)
		return o
	} else if err == nil {
		require.NoError(t, server.Close(t.Context()))
	}
	n := bustest.NewNode(t, cfg)
	defer n.Stop(t)
	st, err := n.Status(t.Context())
	require.NoError(t, err)
	if st.Refusing != nil {
		o.refusal = st.Refusing.Error()
	}
	mail := openMessages(t, n, messages.Config{})
	defer mail.Close()
	held := &held{n: n, mail: mail, histories: map[events.TaskID][]events.Stored{}, databases: databasesOf(n)}
	defer held.close()
	for _, a := range acked {
		if !held.has(t, a) {
			o.missing++
			o.oldest = max(o.oldest, time.Duration(at-a.at)*time.Millisecond)
		}
	}
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	if report.Found > 0 {
		o.problem = strconv.Itoa(report.Found) + ": " + report.Problems[0].What
	}
	if o.refusal == "" && o.problem == "" {
		eventstest.NewChain().Grow(t, n, 3)
	}
	return o
}

// held is the content of a node; it reads every history once.
type held struct {
	n         *bustest.Node
	mail      *bus.Messages
	histories map[events.TaskID][]events.Stored
	databases map[string]*embedded.Database
}

func (h *held) close() {
	for _, d := range h.databases {
		d.Close()
	}
}

func (h *held) has(t *testing.T, a ack) bool {
	t.Helper()
	switch a.kind {
	case "blob":
		_, err := h.n.Get(t.Context(), a.text)
		return err == nil
	case "realtime", "firestore":
		s, err := h.databases[a.kind].Read(t.Context(), "places/"+string(a.task), firebase.Query{})
		fields, _ := s.Data.(map[string]any)
		return err == nil && fields["n"] == any(float64(a.rev))
	case "point":
		_, err := h.n.Load(t.Context(), a.task, "point")
		return err == nil
	case "message", "taken":
		p, err := h.mail.Inbox(t.Context(), "agent:"+string(a.task), messages.Query{})
		return err == nil && (a.kind == "taken") == (len(p.Messages) == 0)
	case "removed":
		for _, err := range h.n.Read(t.Context(), a.task, 1) {
			return fault.Has(err, fault.Gone)
		}
		return false
	}
	history, ok := h.histories[a.task]
	if !ok {
		for c, err := range h.n.Read(t.Context(), a.task, 1) {
			if err != nil {
				break
			}
			history = append(history, c)
		}
		h.histories[a.task] = history
	}
	if a.kind == "archive" {
		return len(history) > 0 && history[0].Archived
	}
	return a.rev <= uint64(len(history)) && events.Hash(history[a.rev-1].Data) == a.text
}

// On default settings a power cut takes nothing that was acknowledged.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	cuts := 3
	if testing.Short() {
		cuts = 1
	}
	if text := os.Getenv(powerCuts); text != "" {
		var err error
		cuts, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	m := newMachine(t, powerDisk)
	total := 0
	for i := range cuts {
		image, acked, at := m.cut(t, 500, time.Duration(rand.IntN(1500))*time.Millisecond)
		o := m.recover(t, bus.Fsync, image, acked, at)
		t.Logf("cut %d: %d acknowledged, %d lost", i+1, o.commits, o.missing)
		require.Zero(t, o.missing, "the oldest %v before the cut", o.oldest)
		require.Empty(t, o.refusal)
		require.Empty(t, o.problem)
		total = o.commits
	}
	kinds := map[string]int{}
	for _, a := range m.journal.acks {
		kinds[a.kind]++
	}
	t.Logf("%d cuts, %d acknowledged, 0 lost: %v", cuts, total, kinds)
	for _, kind := range []string{"commit", "realtime", "firestore"} {
		assert.Positive(t, kinds[kind], kind)
	}
}

// A power cut may take the last moments of a relaxed node, as its documentation says, and no more.
func TestPowerLossRelaxed(t *testing.T) {
	t.Parallel()
	need.Long(t)
	m := newMachine(t, powerDisk, powerLevel+"="+string(bus.Relaxed))
	acks := 20_000
	if testing.Short() {
		acks = 4_000
	}
	image, acked, at := m.cut(t, acks, 0)
	o := m.recover(t, bus.Relaxed, image, acked, at)
	t.Logf("%d acknowledged, %d lost, the oldest %v before the cut", o.commits, o.missing, o.oldest)
	assert.Less(t, o.oldest, 10*time.Second)
	assert.Empty(t, o.refusal)
}

// A power cut while a relaxed node archives takes nothing that is older than the last moments.
func TestPowerLossWhileArchivingRelaxed(t *testing.T) {
	t.Parallel()
	need.Long(t)
	cuts := 3
	if testing.Short() {
		cuts = 1
	}
	for i := range cuts {
		m := newMachine(t, powerDisk, powerLevel+"="+string(bus.Relaxed), powerOld+"=1")
		image, acked, at := m.cut(t, oldTasks*oldCommits+100+rand.IntN(oldTasks-200), 0)
		o := m.recover(t, bus.Relaxed, image, acked, at)
		t.Logf("cut %d: %d acknowledged, %d lost, the oldest %v before the cut", i+1, o.commits, o.missing, o.oldest)
		assert.Less(t, o.oldest, time.Second)
		assert.Empty(t, o.refusal)
		assert.Empty(t, o.problem)
	}
}

// Without a single sync the same test finds what is lost.
func TestPowerLossHasTeeth(t *testing.T) {
	t.Parallel()
	m := newMachine(t, powerDisk, powerSkip+"=1")
	image, acked, at := m.cut(t, 500, 0)
	o := m.recover(t, bus.Fsync, image, acked, at)
	t.Logf("%d acknowledged, %d lost: %s", o.commits, o.missing, o.refusal)
	assert.Positive(t, o.missing)
}
