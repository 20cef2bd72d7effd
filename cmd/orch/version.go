package main

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is the version of this source tree: that of a release, or that of the next one and "-dev". A test checks that it is equal to
// the file VERSION.
const release = "0.2.0-dev"

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

// releaseCommit is the commit of a released program, followed by "-modified" if the sources were changed. The linker sets it.
// The build itself does not record the repository, so that builds are reproducible.
var releaseCommit string

func readVersion() versionInfo {
	v := versionInfo{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.addBuild(info)
	}
	if releaseCommit != "" {
		v.Commit, v.Modified = strings.CutSuffix(releaseCommit, "-modified")
	}
	return v
}

// addBuild adds the facts that the build recorded: the version of the NATS server, and the commit. For a downloaded module
// without a tag, the commit is part of the module version.
func (v *versionInfo) addBuild(info *debug.BuildInfo) {
	for _, m := range info.Deps {
		if m.Path == "github.com/nats-io/nats-server/v2" {
			v.NATS = m.Version
		}
	}
	pseudo := regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+.*)?$`)
	if m := pseudo.FindStringSubmatch(info.Main.Version); m != nil {
		v.Commit = m[1]
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
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
