package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is the output of `orch version`.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// NATS is the version of the embedded server.
	NATS string `json:"nats_server,omitempty"`
}

func newVersion(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  orch version -o json",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			return e.emit(view{data: v, names: []string{v.Version}, text: func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "orch %s (%s, %s, %s)\n", v.Version, v.commit(), v.Go, v.Platform)
				return err
			}})
		},
	}
}

func readVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/nats-io/nats-server/v2" {
			v.NATS = m.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionInfo) commit() string {
	const short = 12
	switch {
	case v.Commit == "":
		return "unknown commit"
	case v.Modified:
		return "commit " + v.Commit[:min(short, len(v.Commit))] + " modified"
	default:
		return "commit " + v.Commit[:min(short, len(v.Commit))]
	}
}
