package main

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

// archiveOptions are the flags of orch archive.
type archiveOptions struct {
	age          string
	status, wait bool
}

func newArchive(c *dataCommands) *cobra.Command {
	var o archiveOptions
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Move finished tasks to the archive, where get and replay still find them",
		Long: `Move finished tasks to the archive, where get and replay still find them. A node does so by itself an hour
after their end; this is for those that ended later than that.

The node does it in the background, beside its other work, and goes on with it after a restart. The command returns after
a moment and says how far it is; --status asks for that again, and --wait follows it to its end.

The commands below copy tasks to an archive outside of the node, a directory or a bucket of S3, and bring them back from there.`,
		Example: "  orch archive --age 7d\n  orch archive --status --wait\n  orch archive export --to /mnt/archive --older-than 90d",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.archive(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.age, "age", "24h", "only tasks that ended longer ago")
	cmd.Flags().BoolVar(&o.status, "status", false, "begin nothing, say how the newest run stands")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow the run to its end; an interrupt leaves it to the node")
	cmd.AddCommand(newArchiveExport(c), newArchiveList(c), newArchiveVerify(c), newArchiveRestore(c))
	return cmd
}

const (
	// archiveWait is how long orch archive waits for a run to end, unless it follows the run.
	archiveWait = 2 * time.Second
	// archiveEvery is the interval at which the progress of a followed run is displayed.
	archiveEvery = time.Second
)

func (c *dataCommands) archive(ctx context.Context, o archiveOptions) error {
	d, err := parseSpan(o.age)
	if err != nil || d < 0 {
		return fault.New(fault.InvalidFormat, "%q is not a duration", o.age).WithField("--age").WithHint("write it as 12h or 7d")
	}
	return c.with(ctx, idle, func(s session) error {
		r, err := s.Archive(ctx, api.ArchiveRequest{Age: d, StatusOnly: o.status, Wait: archiveWait})
		if err == nil && r.Running && (o.wait || s.Embedded()) {
			r, err = c.followArchive(ctx, s, r)
		}
		if err != nil {
			return err
		}
		if r.Running && r.Error != nil {
			return r.Error
		}
		return c.emit(view{data: r, names: []string{strconv.Itoa(r.Archived)}, text: func(w io.Writer) error {
			return writeLines(w, archiveLines(r))
		}})
	})
}

// followArchive shows the progress of a run until it ends. If the node is embedded and the run cannot continue, it returns the
// error of the run.
func (c *dataCommands) followArchive(ctx context.Context, s session, r api.ArchiveReply) (api.ArchiveReply, error) {
	tell := c.progressLine()
	defer tell("")
	var err error
	for r.Running && err == nil {
		switch {
		case r.Error != nil && s.Embedded():
			return r, r.Error
		case r.Error != nil:
			tell("waiting: " + r.Error.Message)
		default:
			tell(screen.Plural(r.Archived, "task") + " archived so far")
		}
		r, err = s.Archive(ctx, api.ArchiveRequest{StatusOnly: true, Wait: archiveEvery})
	}
	return r, err
}

func archiveLines(r api.ArchiveReply) []string {
	lines := []string{screen.Plural(r.Archived, "task") + " archived"}
	if r.Running {
		lines = []string{screen.Plural(r.Archived, "task") + " archived so far; it goes on in the background", "follow it with: orch archive --status --wait"}
	}
	if r.Skipped > 0 {
		lines = append(lines, screen.Plural(r.Skipped, "task")+" could not be archived, and stay until the next run; the log of the node says why")
	}
	return lines
}
