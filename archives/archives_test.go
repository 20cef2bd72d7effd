package archives_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/archives"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
	"github.com/orch-dev/orch/objects/objectstest"
	"github.com/orch-dev/orch/objects/s3"
	"github.com/orch-dev/orch/objects/s3/s3test"
	"github.com/orch-dev/orch/statemachine"
)

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// source is a node with tasks. errs are the errors of exports, exports counts them.
type source struct {
	files   map[events.TaskID][]byte
	revs    map[events.TaskID]uint64
	last    map[events.TaskID]string
	errs    map[events.TaskID]error
	exports int
}

func newSource() *source {
	return &source{files: map[events.TaskID][]byte{}, revs: map[events.TaskID]uint64{}, last: map[events.TaskID]string{}, errs: map[events.TaskID]error{}}
}

// add adds a task with commits, created on a day after the first.
func (s *source) add(t *testing.T, day, commits int) events.TaskID {
	t.Helper()
	return s.set(t, events.NewTaskID(began.Add(time.Duration(day)*24*time.Hour)), commits)
}

func (s *source) set(t *testing.T, id events.TaskID, commits int) events.TaskID {
	t.Helper()
	large, err := json.Marshal(strings.Repeat("large ", 500))
	require.NoError(t, err)
	var file bytes.Buffer
	w := export.NewWriter(&file, export.Config{
		Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), NodeVersion: "1.2.3", At: began,
		Value: func(string) ([]byte, error) { return large, nil },
	})
	task := &statemachine.Task{ID: id}
	for i := range commits {
		e := events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "note", Inputs: events.Offloaded(large)}}
		if i > 0 {
			e = events.Event{Kind: events.StepReady, Data: &events.Ready{Step: "s" + strconv.Itoa(i), Attempt: 1, Tool: "ECHO"}}
		}
		c := &events.Commit{Task: id, Rev: task.Rev + 1, At: began, Actor: "user:ada", Prev: task.Head, Events: []events.Event{e}}
		data, err := events.Encode(c)
		require.NoError(t, err)
		require.NoError(t, task.Fold(c, data))
		require.NoError(t, w.Commit(data))
	}
	_, err = w.Close()
	require.NoError(t, err)
	s.files[id], s.revs[id], s.last[id] = file.Bytes(), uint64(commits), task.Head
	return id
}

func (s *source) ids() []events.TaskID { return slices.Sorted(maps.Keys(s.files)) }

// Export implements archives.Node. It sends a file in small parts.
func (s *source) Export(_ context.Context, r api.ExportRequest) (api.ExportReply, error) {
	id := events.TaskID(r.File)
	if r.File == "" {
		s.exports++
		id = r.IDs[0]
	}
	if err := s.errs[id]; err != nil {
		return api.ExportReply{}, err
	}
	file, ok := s.files[id]
	if !ok {
		return api.ExportReply{}, fault.New(fault.NotFound, "there is no task")
	}
	end := min(len(file), int(r.Offset)+500)
	return api.ExportReply{File: string(id), Data: file[r.Offset:end], Done: end == len(file)}, nil
}

// History implements archives.Node. It has the hashes of the newest commits.
func (s *source) History(_ context.Context, r api.HistoryRequest) (reply api.HistoryReply, err error) {
	for rev := r.From; rev <= s.revs[r.ID] && len(reply.Commits) < r.Limit; rev++ {
		reply.Commits = append(reply.Commits, api.CommitView{Rev: rev, Hash: s.last[r.ID]})
	}
	return reply, nil
}

func openDir(t *testing.T) (*objects.Dir, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := objects.OpenDir(dir, true)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, dir
}

func write(t *testing.T, s *source, store objects.Store) (archives.Result, error) {
	t.Helper()
	w := archives.Writer{Node: s, Store: store, Temp: t.TempDir(), Version: "1.2.3", Now: func() time.Time { return began }}
	r, err := w.Write(t.Context(), s.ids())
	left, _ := os.ReadDir(w.Temp)
	assert.Empty(t, left)
	return r, err
}

func verify(t *testing.T, store objects.Store) archives.Report {
	t.Helper()
	r, err := archives.Verify(t.Context(), store, "", func(archives.Report) {})
	require.NoError(t, err)
	return r
}

// restore returns the export file of a task.
func restore(t *testing.T, store objects.Store, id events.TaskID) ([]byte, error) {
	t.Helper()
	found, err := archives.Find(t.Context(), store, id)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	if err := found.Copy(t.Context(), store, f); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	return data, nil
}

func TestArchive(t *testing.T) {
	t.Parallel()
	server := s3test.New(t, "records", "AKID")
	server.Page = 3
	bucket, err := s3.Open(s3.Config{Place: "s3://records/orch", URL: server.URL, Credentials: s3.Credentials{KeyID: "AKID", Secret: "x"}, Pause: time.Millisecond})
	require.NoError(t, err)
	dir, _ := openDir(t)
	for name, store := range map[string]objects.Store{"dir": dir, "s3": bucket} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource()
			for i := range 7 {
				s.add(t, i%3, 1+i)
			}
			r, err := write(t, s, store)
			require.NoError(t, err)
			assert.Equal(t, 7, r.Tasks)
			assert.Equal(t, 3, r.Bundles, "one for each day")
			report := verify(t, store)
			assert.Equal(t, archives.Report{Bundles: 3, Tasks: 7, Bytes: r.Bytes, Damaged: []archives.Damage{}}, report)
			for id, file := range s.files {
				got, err := restore(t, store, id)
				require.NoError(t, err)
				assert.Equal(t, file, got)
			}
			_, err = restore(t, store, events.NewTaskID(began))
			require.Equal(t, fault.NotFound, fault.CodeOf(err))

			exports := s.exports
			again, err := write(t, s, store)
			require.NoError(t, err)
			assert.Equal(t, archives.Result{Existing: 7, Failed: map[events.TaskID]*fault.Error{}}, again)
			assert.Equal(t, exports, s.exports, "nothing is exported again")
			changed := s.set(t, s.ids()[0], 9)
			r, err = write(t, s, store)
			require.NoError(t, err)
			assert.Equal(t, 1, r.Tasks)
			got, err := restore(t, store, changed)
			require.NoError(t, err)
			assert.Equal(t, s.files[changed], got, "the newest revision counts")
			s.last[changed] = "another history"
			r, err = write(t, s, store)
			require.NoError(t, err)
			assert.Equal(t, 1, r.Tasks, "a task with another history of the same length is written")
		})
	}
}

// A task that cannot be archived is named, and the others are archived. An error of the node or of the store ends everything.
func TestTasksThatFail(t *testing.T) {
	t.Parallel()
	dir, _ := openDir(t)
	s := newSource()
	good, secret, damaged := s.add(t, 0, 1), s.add(t, 0, 2), s.add(t, 0, 3)
	s.errs[secret] = fault.New(fault.SecretDetected, "holds a secret")
	s.files[damaged][len(s.files[damaged])/2] ^= 4
	r, err := write(t, s, dir)
	require.NoError(t, err)
	assert.Equal(t, 1, r.Tasks)
	assert.Equal(t, fault.SecretDetected, r.Failed[secret].Code)
	assert.Equal(t, fault.DataLoss, r.Failed[damaged].Code)
	_, err = restore(t, dir, good)
	require.NoError(t, err)
	assert.Empty(t, verify(t, dir).Damaged)

	other, _ := openDir(t)
	for _, code := range []fault.Code{fault.Unavailable, fault.DiskFull, fault.Forbidden} {
		s.errs[secret] = fault.New(code, "not now")
		_, err = write(t, s, other)
		require.Equal(t, code, fault.CodeOf(err))
	}
	assert.Zero(t, verify(t, other).Bundles)
}

// brittle is a store that fails at its nth write, as if the process had been killed before or after it.
type brittle struct {
	objects.Store

	left  int
	after bool
}

var errKilled = errors.New("killed")

func (b *brittle) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, sum []byte) error {
	b.left--
	if b.left == 0 && !b.after {
		return errKilled
	}
	err := b.Store.Put(ctx, key, body, size, sum)
	if b.left == 0 {
		return errKilled
	}
	return err
}

// Whenever a process is killed, the archive is intact, and the next call writes only what is missing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 6; n++ {
		for _, after := range []bool{false, true} {
			dir, _ := openDir(t)
			s := newSource()
			for i := range 6 {
				s.add(t, i%3, 1)
			}
			_, err := write(t, s, &brittle{Store: dir, left: n, after: after})
			require.ErrorIs(t, err, errKilled)
			report := verify(t, dir)
			assert.Empty(t, report.Damaged)
			r, err := write(t, s, dir)
			require.NoError(t, err)
			assert.Equal(t, report.Tasks, r.Existing, "%d %v", n, after)
			assert.Equal(t, 6, r.Existing+r.Tasks)
			report = verify(t, dir)
			assert.Empty(t, report.Damaged)
			assert.Equal(t, 6, report.Tasks)
			assert.Zero(t, report.Incomplete, "the data file has the same name again")
		}
	}
}

// A store that changes what it stores gets no manifest.
func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	server := s3test.New(t, "records", "AKID")
	bucket, err := s3.Open(s3.Config{Place: "s3://records", URL: server.URL, Credentials: s3.Credentials{KeyID: "AKID", Secret: "x"}, Pause: time.Millisecond})
	require.NoError(t, err)
	s := newSource()
	s.add(t, 0, 3)
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, ".orch") {
			return false
		}
		_, _ = w.Write([]byte("something else"))
		return true
	})
	_, err = write(t, s, bucket)
	require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	require.ErrorContains(t, err, "does not give")
	server.Fail(nil)
	report := verify(t, bucket)
	assert.Zero(t, report.Bundles)
	assert.Equal(t, 1, report.Incomplete)
}

// Damage of one record is named, and the others are restored.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir, path := openDir(t)
	s := newSource()
	ids := []events.TaskID{s.add(t, 0, 2), s.add(t, 0, 2), s.add(t, 0, 2)}
	slices.Sort(ids)
	_, err := write(t, s, dir)
	require.NoError(t, err)
	found, err := archives.Find(t.Context(), dir, ids[1])
	require.NoError(t, err)
	data, manifest := filepath.Join(path, found.Bundle.Name+".orch"), filepath.Join(path, found.Bundle.Name+".json")
	whole, err := os.ReadFile(data)
	require.NoError(t, err)
	for at := found.Entry.Offset; at < found.Entry.Offset+found.Entry.Size; at += 97 {
		bad := bytes.Clone(whole)
		bad[at] ^= 4
		require.NoError(t, os.WriteFile(data, bad, 0o600))
		_, err := restore(t, dir, ids[1])
		require.Equal(t, fault.DataLoss, fault.CodeOf(err), at)
		require.ErrorContains(t, err, string(ids[1]))
		for _, id := range []events.TaskID{ids[0], ids[2]} {
			_, err := restore(t, dir, id)
			require.NoError(t, err)
		}
	}
	report := verify(t, dir)
	require.Len(t, report.Damaged, 1)
	assert.Equal(t, ids[1], report.Damaged[0].Task)
	assert.Equal(t, 3, report.Tasks)

	require.NoError(t, os.WriteFile(data, whole[:len(whole)-1], 0o600))
	require.Len(t, verify(t, dir).Damaged, 1)
	require.NoError(t, os.WriteFile(data, append(bytes.Clone(whole), 'x'), 0o600))
	require.Len(t, verify(t, dir).Damaged, 1)
	require.NoError(t, os.Remove(data))
	require.Len(t, verify(t, dir).Damaged, 1)
	r, err := write(t, s, dir)
	require.NoError(t, err)
	assert.Equal(t, 3, r.Tasks, "a bundle without its data file does not count")
	require.NoError(t, os.Remove(data))
	_, err = restore(t, dir, ids[0])
	require.ErrorContains(t, err, "its data file is missing")

	require.NoError(t, os.WriteFile(manifest, []byte("{"), 0o600))
	_, err = restore(t, dir, ids[0])
	require.Equal(t, fault.DataLoss, fault.CodeOf(err))
	require.Len(t, verify(t, dir).Damaged, 1)
	r, err = write(t, s, dir)
	require.NoError(t, err)
	assert.Equal(t, 3, r.Tasks, "a bundle whose manifest is damaged is written again")
	assert.Empty(t, verify(t, dir).Damaged)
}

// manifest returns a valid manifest and its key.
func manifest(tb testing.TB) (string, archives.Bundle) {
	tb.Helper()
	id := events.NewTaskID(began)
	sum := strings.Repeat("0123", 16)
	b := archives.Bundle{
		Format: "orch-archive", Version: 1, Name: began.Format("2006/01/02/") + string(id) + "-0123456789abcdef", Size: 5, SHA256: sum,
		Tasks: []archives.Entry{{ID: id, Size: 5, SHA256: sum}},
	}
	return b.Name + ".json", b
}

func TestHostileManifests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *archives.Bundle)
		want   fault.Code
	}{
		"valid":               {func(*archives.Bundle) {}, ""},
		"another format":      {func(b *archives.Bundle) { b.Format = "tar" }, fault.DataLoss},
		"newer":               {func(b *archives.Bundle) { b.Version = 2 }, fault.NewerStore},
		"no version":          {func(b *archives.Bundle) { b.Version = 0 }, fault.DataLoss},
		"another place":       {func(b *archives.Bundle) { b.Name = "../../etc/passwd" }, fault.DataLoss},
		"a negative size":     {func(b *archives.Bundle) { b.Size = -1 }, fault.DataLoss},
		"a huge size":         {func(b *archives.Bundle) { b.Size, b.Tasks[0].Size = 1<<62, 1<<62 }, fault.DataLoss},
		"an overflow":         {func(b *archives.Bundle) { b.Tasks[0].Size = 1<<63 - 1 }, fault.DataLoss},
		"a negative offset":   {func(b *archives.Bundle) { b.Tasks[0].Offset = -5 }, fault.DataLoss},
		"a gap":               {func(b *archives.Bundle) { b.Tasks[0].Offset, b.Size = 1, 6 }, fault.DataLoss},
		"too short":           {func(b *archives.Bundle) { b.Tasks[0].Size = 4 }, fault.DataLoss},
		"no tasks":            {func(b *archives.Bundle) { b.Tasks = nil }, fault.DataLoss},
		"many tasks":          {func(b *archives.Bundle) { b.Tasks = make([]archives.Entry, 1001) }, fault.DataLoss},
		"no id":               {func(b *archives.Bundle) { b.Tasks[0].ID = "../x" }, fault.DataLoss},
		"another day":         {func(b *archives.Bundle) { b.Tasks[0].ID = events.NewTaskID(began.Add(48 * time.Hour)) }, fault.DataLoss},
		"a task twice":        {func(b *archives.Bundle) { b.Tasks = append(b.Tasks, b.Tasks[0]) }, fault.DataLoss},
		"a parent of nowhere": {func(b *archives.Bundle) { b.Tasks[0].Parent = "x" }, fault.DataLoss},
		"a short digest":      {func(b *archives.Bundle) { b.SHA256 = "00" }, fault.DataLoss},
		"a digest of a task":  {func(b *archives.Bundle) { b.Tasks[0].SHA256 = strings.Repeat("z", 64) }, fault.DataLoss},
	} {
		key, b := manifest(t)
		c.change(&b)
		data, err := json.Marshal(b)
		require.NoError(t, err)
		got, err := archives.ParseManifest(key, data)
		assert.Equal(t, c.want, fault.CodeOf(err), "%s: %v", name, err)
		if err == nil {
			assert.Equal(t, b, got)
		}
	}
	key, _ := manifest(t)
	_, err := archives.ParseManifest(key, make([]byte, archives.MaxManifest+1))
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
}

// A manifest that describes another history than its data file is found out, although all digests fit.
func TestManifestsDoNotLie(t *testing.T) {
	t.Parallel()
	dir, _ := openDir(t)
	s := newSource()
	id := s.add(t, 0, 2)
	_, err := write(t, s, dir)
	require.NoError(t, err)
	found, err := archives.Find(t.Context(), dir, id)
	require.NoError(t, err)
	for name, change := range map[string]func(b *archives.Bundle){
		"revision": func(b *archives.Bundle) { b.Tasks[0].Commits = 9 },
		"hash":     func(b *archives.Bundle) { b.Tasks[0].Last = "x" },
		"key":      func(b *archives.Bundle) { b.Key = "x" },
		"task":     func(b *archives.Bundle) { b.Tasks[0].ID = events.NewTaskID(id.Time()) },
	} {
		b := found.Bundle
		b.Tasks = slices.Clone(b.Tasks)
		change(&b)
		data, err := json.Marshal(b)
		require.NoError(t, err)
		require.NoError(t, objectstest.Put(t.Context(), dir, b.Name+".json", data))
		require.Len(t, verify(t, dir).Damaged, 1, name)
	}
}

func FuzzParseManifest(f *testing.F) {
	key, b := manifest(f)
	data, err := json.Marshal(b)
	require.NoError(f, err)
	f.Add(key, data)
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		b, err := archives.ParseManifest(key, data)
		if err != nil {
			require.Contains(t, []fault.Code{fault.DataLoss, fault.NewerStore}, fault.CodeOf(err))
			return
		}
		require.NoError(t, objects.CheckKey(b.Name))
		end := int64(0)
		for _, e := range b.Tasks {
			require.Equal(t, end, e.Offset)
			end += e.Size
		}
		require.Equal(t, b.Size, end)
	})
}
