package corrupt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/corrupt"
)

const (
	// envCases is the number of damages, envSeed the seed that repeats a run.
	envCases = "ORCH_CORRUPT_CASES"
	envSeed  = "ORCH_CORRUPT_SEED"
	// fewCases are those of an ordinary test run.
	fewCases = 16
	// probeWithin is how long a probe may take.
	probeWithin = 90 * time.Second
)

// The good outcomes of a damage.
const (
	refused  = "refused at start"
	named    = "named by verify"
	mended   = "named, mended"
	givenUp  = "task given up"
	harmless = "harmless"
)

// template is a data directory and its expected content.
type template struct {
	dir   string
	whole outcome
}

// TestCorruption damages one file of a store at a time. Each damage is refused at the start with DATA_LOSS and
// reported, or reported by verify, or has no effect: everything reads as before. The log can be appended to after a
// start that repairs a reported damage.
func TestCorruption(t *testing.T) {
	t.Parallel()
	cases, seed := number(t, envCases, fewCases), number(t, envSeed, time.Now().UnixNano()&0xffffff)
	t.Logf("%d cases, seed %d; repeat with %s=%d %s=%d", cases, seed, envCases, cases, envSeed, seed)
	templates := []template{built(t, roleBuild), built(t, roleHang)}
	var mu sync.Mutex
	table := map[string]map[string]int{}
	numbers := make(chan int64)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range numbers {
				kind, end := oneCase(t, templates, seed, i)
				mu.Lock()
				if table[kind] == nil {
					table[kind] = map[string]int{}
				}
				table[kind][end]++
				mu.Unlock()
			}
		})
	}
	for i := range cases {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	t.Log(render(table))
}

func number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// built returns a template from a child process that was stopped or killed afterwards.
func built(t *testing.T, role string) template {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	cmd := child(t.Context(), role, dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if role == roleHang {
		_, err := out.Read(make([]byte, 1))
		require.NoError(t, err)
		marked(t, dir)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	} else {
		require.NoError(t, cmd.Wait())
	}
	copied := dir + ".copy"
	require.NoError(t, copyDir(copied, dir))
	whole, problem := run(t.Context(), copied)
	require.Empty(t, problem)
	require.Equal(t, atEnd, whole.Stage, "%+v", whole)
	if role != roleSmall {
		require.Greater(t, len(whole.Content), 300)
	}
	return template{dir: dir, whole: whole}
}

// marked waits until the high-water mark has caught up with the log: it stays as it is.
func marked(t *testing.T, dir string) {
	t.Helper()
	var last []byte
	const beat = 1500 * time.Millisecond // longer than that of the store's housekeeping
	require.Eventually(t, func() bool {
		mark, err := os.ReadFile(filepath.Join(dir, "highwater.json"))
		same := err == nil && bytes.Equal(mark, last)
		last = mark
		return same
	}, time.Minute, beat)
}

// oneCase damages a copy of a template and checks the result of a probe.
func oneCase(t *testing.T, templates []template, seed, i int64) (kind, end string) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
	from := templates[r.IntN(len(templates))]
	dir := filepath.Join(filepath.Dir(from.dir), strconv.FormatInt(i, 10))
	var d corrupt.Damage
	err := copyDir(dir, from.dir)
	if err == nil {
		d, err = corrupt.Pick(r, dir)
	}
	if err == nil {
		err = d.Apply(dir)
	}
	if err != nil {
		t.Errorf("case %d cannot be set up: %v", i, err)
		return d.Kind, "WRONG"
	}
	got, problem := run(t.Context(), dir)
	end, wrong := judge(from.whole, got, problem)
	if wrong != "" {
		t.Errorf("case %d, %s: %s", i, d, wrong)
		return d.Kind, "WRONG"
	}
	if os.Getenv(envCases) != "" {
		t.Logf("case %d, %s: %s %s %v", i, d, end, got.Refused, got.Problems)
	}
	assert.NoError(t, os.RemoveAll(dir))
	return d.Kind, end
}

// judge returns how a case ended, and what is wrong with it, or "".
func judge(whole, got outcome, problem string) (end, wrong string) {
	lost := got.Code == fault.DataLoss
	switch {
	case problem != "":
		return "", problem
	case len(got.Positions) > 0 && got.Positions[0] <= whole.Last:
		return "", fmt.Sprintf("position %d was used again", got.Positions[0])
	case got.Stage == atStart && lost:
		return refused, ""
	case got.Stage == atOpen && lost && (got.After == fault.DataLoss || got.After == ""):
		return refused, ""
	case got.Stage == atVerify && len(got.Problems) > 0 && got.After == fault.DataLoss:
		return named, ""
	case got.Stage == atEnd && maps.Equal(whole.Content, got.Content) && len(got.Mended) > 0:
		return mended, ""
	case got.Stage == atEnd && maps.Equal(whole.Content, got.Content):
		return harmless, ""
	case got.Stage == atEnd && got.Lost != nil && onlyLost(whole.Content, got.Content, got.Lost):
		return givenUp, ""
	case got.Stage == atEnd:
		return "", "the content is another one and nobody said so: " + difference(whole.Content, got.Content)
	default:
		return "", fmt.Sprintf("it ended at stage %s with %s %q, problems %v", got.Stage, got.Code, got.Refused, got.Problems)
	}
}

// onlyLost reports whether only the tasks reported as lost are missing, and the values that only they had.
func onlyLost(want, got map[string]string, lost *bus.Lost) bool {
	for name, sum := range want {
		task, _, _ := strings.Cut(name, " ")
		_, gone := lost.Tasks[events.TaskID(task)]
		gone = gone || positionLost(sum, lost) // of what was cut off nothing tells the task
		has, there := got[name]
		if there && has != sum || !there && !gone && !strings.HasPrefix(name, "sha256-") {
			return false
		}
	}
	return len(got) <= len(want)
}

// positionLost reports whether content begins with a position that was reported as lost.
func positionLost(content string, lost *bus.Lost) bool {
	text, _, _ := strings.Cut(content, " ")
	seq, err := strconv.ParseUint(text, 10, 64)
	return err == nil && slices.ContainsFunc(lost.Positions, func(r [2]uint64) bool { return r[0] <= seq && seq <= r[1] })
}

func difference(want, got map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			return fmt.Sprintf("%s is %q, was %q", name, got[name], want[name])
		}
	}
	return "there is more than there was"
}

// run probes a directory in a process of its own, with bounds on time and memory.
func run(ctx context.Context, dir string) (got outcome, problem string) {
	ctx, stop := context.WithTimeout(ctx, probeWithin)
	defer stop()
	cmd := child(ctx, roleProbe, dir)
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return got, "the probe hangs"
	case err != nil:
		return got, fmt.Sprintf("the probe died: %v: %.2000s", err, says.String())
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return got, "the probe says nonsense: " + err.Error()
	}
	return got, ""
}

func child(ctx context.Context, role, dir string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), envRole+"="+role, envDir+"="+dir)
	return cmd
}

func copyDir(to, from string) error {
	return errors.Join(os.CopyFS(to, os.DirFS(from)), os.Chmod(to, 0o700))
}

// render prints how often a kind of file ended how.
func render(table map[string]map[string]int) string {
	ends := []string{refused, named, mended, givenUp, harmless, "WRONG"}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-32s", "damaged file")
	for _, end := range ends {
		fmt.Fprintf(&b, "%18s", end)
	}
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintf(&b, "\n%-32s", kind)
		for _, end := range ends {
			fmt.Fprintf(&b, "%18d", table[kind][end])
		}
	}
	return b.String()
}
