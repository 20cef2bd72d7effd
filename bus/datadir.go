package bus

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// The files of a data directory beside the store itself.
const (
	lockFile      = "LOCK"
	authFile      = "auth.json"
	nodeFile      = "node.json"
	workFile      = "worker.json"
	highWaterFile = "highwater.json"
	storeDir      = "nats"
)

// DataDirInUse is the reason in CONFLICT errors if another process holds the data directory.
const DataDirInUse = "DATA_DIR_IN_USE"

// credentials are the passwords of the two users of the embedded server.
type credentials struct {
	Operator string `json:"operator"`
	Worker   string `json:"worker"`
}

// nodeInfo is the content of nodeFile, which a running server publishes in its data directory.
type nodeInfo struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	// Root is ServerConfig.Root, Passing ServerConfig.Passing.
	Root    string `json:"root,omitempty"`
	Passing bool   `json:"passing,omitempty"`
}

// RootOf returns the root of the node that runs on a data directory; "" if none runs, or if it has published no root.
func RootOf(dir string) string {
	info, err := readNode(dir)
	if err != nil {
		return ""
	}
	return info.Root
}

// Passes reports whether the node that runs on a data directory is that of a command that executes no calls.
func Passes(dir string) bool {
	info, err := readNode(dir)
	return err == nil && info.Passing
}

// OpenDataDir creates a data directory if it is missing and denies access to other users.
func OpenDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return dirFault(err, "the data directory "+dir+" cannot be made")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the data directory "+dir+" cannot be read")
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return fault.Wrap(fault.Forbidden, err, "other users can read the data directory "+dir).
			WithField("data_dir").WithHint("run: chmod 700 %s", dir)
	}
	return nil
}

// makeStoreDir creates the directory of the store durably. Call it before writing any other file from which a later start
// concludes that a store exists.
func makeStoreDir(dir string) error {
	path := filepath.Join(dir, storeDir)
	err := os.Mkdir(path, 0o700)
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return writeFault(path, err)
	}
	return nil
}

// lockDataDir locks the directory; CONFLICT if it is in use. The kernel releases the lock when the process ends. The NATS
// server itself locks nothing: two servers on one store would both acknowledge messages, and half of these would be lost.
// guest is the name of a command that releases the directory when a node wants it; empty for a node. A guest also gets
// CONFLICT while a node waits for the directory.
func lockDataDir(dir, guest string) (*os.File, error) {
	if guest != "" && Wanted(dir) {
		return nil, fault.New(fault.Conflict, "a node is about to start on the data directory %s", dir).
			WithReason(DataDirInUse).WithField("data_dir").WithHint("try again in a moment")
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dirFault(err, "the lock of the data directory "+dir+" cannot be opened")
	}
	err = flock(f, guest == "")
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer f.Close()
		return nil, inUseFault(dir, f)
	}
	if err == nil {
		err = writeHolder(f, guest)
	}
	if err != nil {
		f.Close()
		return nil, writeFault(f.Name(), err)
	}
	return f, nil
}

// lockWithin is how long a node waits for the lock of another one. The kernel keeps the lock of a process that was killed until it has
// released the memory of the process.
const lockWithin = time.Second

// flock locks a file; EWOULDBLOCK if another process holds it. A patient caller waits for lockWithin, unless a guest holds it.
func flock(f *os.File, patient bool) error {
	for end := time.Now().Add(lockWithin); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || !patient || holderOf(f).Guest != "" || time.Now().After(end) {
			return err
		}
		_ = pause.For(context.Background(), turnPause)
	}
}

// unlock releases the lock at once. Closing the file is not enough: a child process that is being started holds a copy
// of the descriptor until it executes its program.
func unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// writeHolder writes this process to the lock file. It overwrites the file in place, which needs no disk space.
func writeHolder(f *os.File, guest string) error {
	text := Holder{PID: os.Getpid(), Guest: guest}.text()
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)))
}

func inUseFault(dir string, lock *os.File) error {
	holder, address := holderOf(lock), "not yet known"
	if info, err := readNode(dir); err == nil && info.PID == holder.PID {
		address = info.URL
	}
	return fault.New(fault.Conflict, "the data directory %s is in use by %s, address %s", dir, holder, address).
		WithReason(DataDirInUse).WithField("data_dir").
		WithHint("use the running node, stop it, or give another data directory")
}

// loadCredentials reads the passwords of the data directory. It creates them if the file is missing.
func loadCredentials(dir string) (credentials, error) {
	auth, err := readCredentials(dir)
	if !fault.Has(err, fault.NotFound) {
		return auth, err
	}
	auth = credentials{Operator: agents.NewSecret(), Worker: agents.NewSecret()}
	return auth, writeSealed(filepath.Join(dir, authFile), auth)
}

func readCredentials(dir string) (credentials, error) {
	var auth credentials
	path := filepath.Join(dir, authFile)
	err := readSealed(path, &auth)
	if err != nil && !fault.Has(err, fault.DataLoss) {
		return auth, err
	}
	if err != nil || auth.Operator == "" || auth.Worker == "" {
		return auth, fault.New(fault.DataLoss, "the credentials in %s are damaged", path).
			WithHint("stop the node and delete the file; new credentials are made at the next start")
	}
	return auth, os.Chmod(path, 0o600)
}

func readNode(dir string) (nodeInfo, error) {
	var info nodeInfo
	return info, readJSON(filepath.Join(dir, nodeFile), &info)
}

// readJSON decodes a small file. Errors: NOT_FOUND if the file is missing, DATA_LOSS if it is damaged.
func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the file "+path+" cannot be read")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the file "+path+" is damaged")
	}
	return nil
}

func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a file cannot be encoded")
	}
	return writeFile(path, append(data, '\n'))
}

// replacing is held while a file is replaced: two stores of a process may share a file, and its temporary name.
var replacing sync.Mutex //nolint:gochecknoglobals // files are global

// writeFile replaces a small file atomically: a crash or a power loss leaves the old content or the new.
func writeFile(path string, data []byte) error {
	replacing.Lock()
	defer replacing.Unlock()
	temp := path + ".new"
	err := writeSynced(temp, data)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return writeFault(path, err)
	}
	return nil
}

func writeFault(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fault.Wrap(fault.DiskFull, err, "the file "+path+" cannot be written")
	}
	return dirFault(err, "the file "+path+" cannot be written")
}

// dirFault wraps an operating system error about the data directory or a file in it. It adds a hint for known causes.
func dirFault(err error, message string) error {
	e := fault.Wrap(fault.CodeOf(err), err, message)
	switch {
	case errors.Is(err, syscall.EROFS):
		return fault.Wrap(fault.Forbidden, err, message+": its file system is mounted read-only").WithReason(fault.ReadOnlyFileSystem).
			WithHint("mount it writable, or choose another one: --data-dir")
	case errors.Is(err, fs.ErrPermission):
		return e.WithHint("chown or chmod it, or choose another one: --data-dir")
	default:
		return e
	}
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.CodeOf(err), err, "the file "+path+" cannot be removed")
	}
	return nil
}

// OwnerOf returns the identity, such as user:ada, that the operator's credential of a data directory stands for: the user of
// the operating system who owns the directory, or the user who runs this process if the directory is missing.
func OwnerOf(dir string) string {
	uid := os.Geteuid()
	if info, err := os.Stat(dir); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			uid = int(stat.Uid)
		}
	}
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return "user:" + u.Username
	}
	return "user:" + id
}
