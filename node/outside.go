package node

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/orch-dev/orch/archives"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/objects"
	"github.com/orch-dev/orch/objects/s3"
)

// OutsideStore is a store of archives that can be closed.
type OutsideStore interface {
	objects.Store
	io.Closer
}

// OpenOutside opens the store of an archive: a directory, which is created if create is set, or s3://BUCKET/PREFIX. It makes no request to
// a server. Errors name the setting that is wrong, and contain no credentials.
func OpenOutside(place string, settings config.S3, getenv func(string) string, create bool) (OutsideStore, error) {
	if scheme, _, ok := strings.Cut(place, "://"); ok && scheme != "s3" {
		return nil, fault.New(fault.InvalidFormat, "%q is neither a directory nor of the form s3://BUCKET/PREFIX", place)
	}
	if !strings.HasPrefix(place, "s3://") {
		dir, err := objects.OpenDir(place, create)
		if err != nil {
			return nil, err // and no store: a nil pointer in the interface would count as one
		}
		return dir, nil
	}
	cfg := s3.Config{
		Place:  place,
		URL:    cmp.Or(settings.URL, getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL")),
		Region: cmp.Or(settings.Region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")),
	}
	var err error
	if cfg.Credentials, err = s3Credentials(settings, getenv); err != nil {
		return nil, err
	}
	bucket, err := s3.Open(cfg)
	if err != nil {
		return nil, err
	}
	return bucket, nil
}

// s3Credentials returns the credentials of the settings, or those of the variables of AWS.
func s3Credentials(settings config.S3, getenv func(string) string) (c s3.Credentials, err error) {
	if settings.KeyID == "" && settings.Secret == "" {
		return s3.Credentials{KeyID: getenv("AWS_ACCESS_KEY_ID"), Secret: getenv("AWS_SECRET_ACCESS_KEY"), Token: getenv("AWS_SESSION_TOKEN")}, nil
	}
	if c.KeyID, err = settings.KeyID.Read(getenv); err != nil {
		return c, fault.From(err).WithField("s3_key_id")
	}
	if c.Secret, err = settings.Secret.Read(getenv); err != nil {
		return c, fault.From(err).WithField("s3_secret")
	}
	return c, nil
}

// outsidePlace returns where tasks are archived before they are removed; empty for nowhere, and for a node that removes nothing.
func (h *host) outsidePlace() string {
	if h.cfg.Guest != "" || h.cfg.Confinement.ReadOnly {
		return ""
	}
	return h.cfg.Limits.Retention.ArchiveTo
}

// preserve returns the function that archives tasks before they are removed; nil if they are not archived. Settings that are wrong are an
// error at the start.
func (h *host) preserve() (func(ctx context.Context, ids []events.TaskID) (map[events.TaskID]error, error), error) {
	place := h.outsidePlace()
	if place == "" {
		return nil, nil //nolint:nilnil // nothing is archived
	}
	if strings.Contains(place, "://") {
		store, err := OpenOutside(place, h.cfg.Tools.S3, os.Getenv, false)
		if err != nil {
			return nil, outsideFault(err)
		}
		if err := store.Close(); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, ids []events.TaskID) (map[events.TaskID]error, error) {
		store, err := OpenOutside(place, h.cfg.Tools.S3, os.Getenv, false)
		if err != nil {
			return nil, outsideFault(err)
		}
		w := archives.Writer{Node: h.commands(), Store: store, Temp: h.cfg.DataDir, Version: h.cfg.Version, Now: h.clock}
		r, err := w.Write(ctx, ids)
		h.cfg.logger().LogAttrs(ctx, slog.LevelInfo, "tasks_archived_outside", slog.String("place", place), slog.Int("tasks", r.Tasks),
			slog.Int("existing", r.Existing), slog.Int("failed", len(r.Failed)), slog.Int64("bytes", r.Bytes))
		left := map[events.TaskID]error{}
		for id, why := range r.Failed {
			left[id] = why
		}
		return left, errors.Join(err, store.Close())
	}, nil
}

// outsideFault names the setting of an error that names none.
func outsideFault(err error) error {
	f := fault.From(err)
	if f.Field == "" {
		f = f.WithField("retain_archive_to")
	}
	return f
}
