package proc_test

import (
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/internal/proc"
)

// ipcPrey are IPC objects that other processes can find without files: System V memory, queue and semaphores, by key
// and by number, and a POSIX queue.
type ipcPrey struct{ key, memory, queue, semaphores, name string }

func newIPCPrey(t *testing.T) ipcPrey {
	t.Helper()
	p := ipcPrey{name: "/orch-test-" + rand.Text()}
	key := randomKey()
	p.key = strconv.FormatUint(uint64(key), 10)
	p.memory = made(t, unix.SYS_SHMGET, key, unix.SYS_SHMCTL)
	p.queue = made(t, unix.SYS_MSGGET, key, unix.SYS_MSGCTL)
	p.semaphores = made(t, unix.SYS_SEMGET, key, unix.SYS_SEMCTL)
	if err := call6(unix.SYS_MQ_OPEN, pointer(p.name[1:]), unix.O_RDWR|unix.O_CREAT, 0o600, 0); err == nil {
		t.Cleanup(func() { assert.NoError(t, call6(unix.SYS_MQ_UNLINK, pointer(p.name[1:])), "the queue is still there") })
	}
	return p
}

// attempts are attacks on all of it.
func (p ipcPrey) attempts() []attempt {
	return []attempt{
		{"attach memory", p.memory},
		{"find memory", p.key},
		{"find queue", p.key},
		{"send to queue", p.queue},
		{"find semaphores", p.key},
		{"add semaphores", p.semaphores},
		{"add semaphores in time", p.semaphores},
		{"open POSIX queue", p.name},
		{"remove POSIX queue", p.name},
	}
}

// randomKey returns an unused key.
func randomKey() uintptr {
	var key [4]byte
	_, _ = rand.Read(key[:])
	return uintptr(binary.NativeEndian.Uint32(key[:])&0x7fffffff | 1)
}

// made creates a System V object, which is removed after the test, and returns its number.
func made(t *testing.T, get, key, control uintptr) string {
	t.Helper()
	id, err := getIPC(get, key)
	require.NoError(t, err)
	remove := [3]uintptr{id, unix.IPC_RMID}
	if control == unix.SYS_SEMCTL {
		remove = [3]uintptr{id, 0, unix.IPC_RMID}
	}
	t.Cleanup(func() { assert.NoError(t, call(control, remove[:]...), "it is still there") })
	return strconv.FormatUint(uint64(id), 10)
}

// makeIPC creates a System V object.
func makeIPC(get, key uintptr) error {
	_, err := getIPC(get, key)
	return err
}

func getIPC(get, key uintptr) (uintptr, error) {
	const size, flags = 1, unix.IPC_CREAT | unix.IPC_EXCL | 0o600
	args := [3]uintptr{key, size, flags}
	if get == unix.SYS_MSGGET {
		args = [3]uintptr{key, flags}
	}
	id, _, errno := unix.Syscall(get, args[0], args[1], args[2])
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

func attachMemory(id string) error {
	data, err := unix.SysvShmAttach(number(id), 0, unix.SHM_RDONLY)
	if err != nil {
		return err
	}
	return unix.SysvShmDetach(data)
}

func sendToQueue(id string) error {
	message := struct {
		kind int64
		text [8]byte
	}{kind: 1}
	return call6(unix.SYS_MSGSND, numberOf(id), uintptr(unsafe.Pointer(&message)), uintptr(len(message.text)), unix.IPC_NOWAIT)
}

// addSemaphores increments a semaphore with one of the two calls for that.
func addSemaphores(by uintptr) func(id string) error {
	return func(id string) error {
		order := struct {
			number            uint16
			change, semaphore int16
		}{change: 1}
		return call6(by, numberOf(id), uintptr(unsafe.Pointer(&order)), 1)
	}
}

func numberOf(text string) uintptr { return uintptr(number(text)) }

// With a view a program has its own private shared memory, which ends with it; without a view it has none.
func TestOwnIPC(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	key := strconv.FormatUint(uint64(randomKey()), 10)
	for range 2 {
		through, said := p.try(t, r, p.sandbox(), "own memory", key)
		assert.Equal(t, proc.Probe().Views, through, said)
	}
	assert.ErrorIs(t, call(unix.SYS_SHMGET, numberOf(key), 0, 0), unix.ENOENT, "nothing is left of it outside")
}
