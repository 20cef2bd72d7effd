package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/clients"
	"github.com/orch-dev/orch/mcp/server"
)

// entryCheck is the result of starting the program that the entry in the configuration of a client names.
type entryCheck struct {
	clients.Trial

	// Profile is the profile that the entry names.
	Profile string `json:"profile"`
}

// String returns the result as a line for people.
func (c entryCheck) String() string {
	return fmt.Sprintf("%d tools in %d bytes, profile %s, %s %s", c.Tools, c.Bytes, c.Profile, c.Server, c.Version)
}

// checkEntry starts the program of an entry like the client does. It returns nil if the user wants no check. It returns
// EXEC_FAILED if a client could not use the program; nothing is written then.
func (c *mcpClientCommands) checkEntry(ctx context.Context, config configuration, content []byte, name string) (*entryCheck, error) {
	if !config.check {
		return nil, nil
	}
	launch, err := config.client.Launch(config.file, content, name)
	if err != nil {
		return nil, err
	}
	trial, err := clients.Try(ctx, launch, c.getenv)
	if ctx.Err() != nil {
		return nil, fault.New(fault.Cancelled, "nothing was changed")
	}
	if err == nil && trial.Tools == 0 {
		err = fault.New(fault.ExecFailed, "it lists no tools; look at --tools and --only-read")
	}
	if err != nil {
		return nil, fault.New(fault.ExecFailed, "%s could not use it: %s", config.client.Title, fault.From(err).Message).WithField(config.file).
			WithHint("nothing was written; the client would start %q; --no-check writes it all the same", append([]string{launch.Command}, launch.Args...))
	}
	return &entryCheck{Trial: trial, Profile: profileIn(launch.Args)}, nil
}

// profileIn returns the profile in the arguments of orch.
func profileIn(args []string) string {
	if i := slices.Index(args, "--profile"); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return server.ProfileAll
}

// write replaces the content of a configuration file and verifies it. It returns the path of a backup of the former content.
func (c configuration) write(after []byte, now time.Time) (backup string, err error) {
	if backup, err = clients.Write(c.file, c.content, after, now); err != nil {
		return backup, err
	}
	written, err := clients.Read(c.file)
	if err == nil && !bytes.Equal(written, after) {
		err = fault.New(fault.Conflict, "somebody has changed it meanwhile").WithField(c.file)
	}
	if err != nil && backup != "" {
		return backup, fault.From(err).WithHint("what it was is in %s", backup)
	}
	return backup, err
}
