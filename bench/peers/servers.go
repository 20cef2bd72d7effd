package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is the server of a system, with its data in a directory that outlives its process.
type server struct {
	dir, address string
	// create makes the directory ready before the first start.
	create func(ctx context.Context, dir string) error
	// command returns the command to start the server.
	command func(dir string) *exec.Cmd
	// check fails as long as the server, which listens on its address, takes no requests; nil if it does at once.
	check func(ctx context.Context) error

	cmd *exec.Cmd
}

// start starts the server and waits until it takes requests.
func (s *server) start(ctx context.Context) error {
	if _, err := os.Stat(s.dir); err != nil {
		if err := s.create(ctx, s.dir); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(s.dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = s.command(s.dir)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.cmd.SysProcAttr == nil {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	if err := s.cmd.Start(); err != nil {
		return err
	}
	if err := s.until(ctx); err != nil {
		s.stop()
		text, _ := os.ReadFile(s.dir + ".log") // the error is reported anyway
		return fmt.Errorf("the server does not start: %w: %s", err, text[max(len(text)-2000, 0):])
	}
	return nil
}

// until waits until the server takes requests.
func (s *server) until(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		err := s.accepts(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *server) accepts(ctx context.Context) error {
	if s.check != nil {
		return s.check(ctx)
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err == nil {
		err = c.Close()
	}
	return err
}

// stop stops the server and waits for it.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGINT) // PostgreSQL ends its sessions
	kill := time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait()
}

// reset starts the server with an empty directory.
func (s *server) reset(ctx context.Context) error {
	s.stop()
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// freeAddress returns an address on which nobody listens.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ""
	}
	defer l.Close()
	return l.Addr().String()
}

// redisServer returns redis with an append-only file that is synced as sync says.
func redisServer(o options, sync string) *server {
	return &server{
		dir: filepath.Join(o.dir, "redis-"+sync), address: o.redis,
		create: func(_ context.Context, dir string) error { return os.Mkdir(dir, 0o700) },
		command: func(dir string) *exec.Cmd {
			host, port, _ := net.SplitHostPort(o.redis) // the address is valid
			return exec.Command("redis-server", "--bind", host, "--port", port, "--dir", dir, "--save", "",
				"--appendonly", "yes", "--appendfsync", sync)
		},
		check: func(ctx context.Context) error { // fails while redis loads its data
			c := redis.NewClient(&redis.Options{Addr: o.redis})
			defer c.Close()
			return c.Ping(ctx).Err()
		},
	}
}

// postgresServer returns PostgreSQL with the defaults of the distribution.
func postgresServer(o options) *server {
	host, port, _ := net.SplitHostPort(o.postgres) // the address is valid
	return &server{
		dir: filepath.Join(o.dir, "postgres"), address: o.postgres,
		create: createPostgres,
		command: func(dir string) *exec.Cmd {
			return postgresCommand("postgres", "-D", dir, "-c", "listen_addresses="+host, "-c", "port="+port,
				"-c", "unix_socket_directories=", "-c", "fsync=on", "-c", "synchronous_commit=on")
		},
		check: func(ctx context.Context) error {
			pool, err := riverPool(ctx, o.postgresURL())
			if err != nil {
				return err
			}
			defer pool.Close()
			return pool.Ping(ctx)
		},
	}
}

func (o options) postgresURL() string {
	return "postgres://bench@" + o.postgres + "/postgres?sslmode=disable"
}

func createPostgres(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if id := postgresUser(); id != nil {
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, int(id.Uid), int(id.Gid))); err != nil {
			return err
		}
	}
	cmd := postgresCommand("initdb", "-D", dir, "--auth=trust", "--username=bench")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	return ctx.Err()
}

// postgresCommand returns a command of the newest PostgreSQL that is installed. PostgreSQL refuses to run as root.
func postgresCommand(name string, args ...string) *exec.Cmd {
	path := name
	if files, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(files) > 0 { // the pattern is valid
		path = slices.MaxFunc(files, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: postgresUser()}
	return cmd
}

// postgresUser returns the user that runs PostgreSQL; nil if it is the user of this process.
func postgresUser() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil
	}
	uid, _ := strconv.Atoi(u.Uid) // numbers on Unix
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
