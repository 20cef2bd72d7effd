package registry

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/wholefile"
)

// stateFile stores which servers are enabled: {"github":{"enabled":true}} (S1-055).
type stateFile struct{ path string }

// serverState is the stored state of a server.
type serverState struct {
	Enabled bool `json:"enabled"`
}

// writable returns ErrStateNotWritable if the state cannot be saved.
func (f stateFile) writable() error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unsaved(dir, err)
	}
	probe, err := os.CreateTemp(dir, ".mcp-tools.*")
	if err != nil {
		return unsaved(dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func unsaved(path string, err error) error {
	return fault.Wrap(fault.Forbidden, errors.Join(ErrStateNotWritable, err), "the state of MCP servers cannot be written").WithField(path)
}

// load reads the state. It treats a damaged file as empty.
func (f stateFile) load(log *slog.Logger) map[string]serverState {
	state := map[string]serverState{}
	content, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return state
	}
	if err == nil {
		err = json.Unmarshal(content, &state)
	}
	if err != nil || state == nil {
		log.Warn("mcp_state_unreadable", slog.String("file", f.path), slog.Any("error", err))
		return map[string]serverState{}
	}
	return state
}

// set changes the stored state of one server. It reads the file again first, to keep changes by other processes.
func (f stateFile) set(name string, enabled bool, log *slog.Logger) error {
	state := f.load(log)
	if now, ok := state[name]; ok && now.Enabled == enabled {
		return nil
	}
	state[name] = serverState{enabled}
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return unsaved(f.path, err)
	}
	if err := wholefile.Replace(f.path, append(content, '\n'), 0o600); err != nil {
		return unsaved(f.path, err)
	}
	return nil
}
