package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"

	"github.com/orch-dev/orch/tools"
)

// toFile writes a notice to a new file, outputs/notifications/<time>-<key>.json in the workspace of the task.
// Separate files need no lock, and their names sort by time.
func toFile(_ context.Context, env *tools.Env, n Notice) error {
	data, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(n.Key))
	name := n.At.Format("20060102T150405.000000Z") + "-" + hex.EncodeToString(sum[:6]) + ".json"
	rel, err := env.Own(filepath.Join(env.Workspace, "outputs", "notifications", name))
	if err != nil {
		return err
	}
	if err := env.Root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return err
	}
	_, err = env.Root.WriteAtomic(rel, append(data, '\n'), 0o644)
	return err
}
