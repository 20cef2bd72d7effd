// Package s3 stores objects in a bucket of S3, or of another server that speaks its protocol: it puts, reads and lists objects, and
// signs its requests with version 4 of the signatures of AWS.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
)

// Config configures a Bucket.
type Config struct {
	// Place is s3://BUCKET or s3://BUCKET/PREFIX.
	Place string
	// URL is the base URL of the server, such as https://minio.example.com; empty for that of AWS.
	URL string
	// Region is the region of the bucket; default us-east-1.
	Region      string
	Credentials Credentials
	// Stall is how long a request may make no progress; default one minute. Pause is the pause before the first repetition of a request
	// that failed, and doubles with each; default one second.
	Stall, Pause time.Duration
}

// Limits of requests.
const (
	// MaxObject is the size of the largest object that is stored with one request, in bytes.
	MaxObject = 5 << 30
	// attempts is how often a request is made until it succeeds.
	attempts = 6
	// maxAnswer limits an answer that is not an object, in bytes.
	maxAnswer = 8 << 20
	// maxPause limits the pause between attempts.
	maxPause = 20 * time.Second
)

// Bucket is a store in a bucket.
type Bucket struct {
	cfg    Config
	base   *url.URL
	prefix string
	signer signer
	client *http.Client
}

var _ objects.Store = (*Bucket)(nil)

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Open returns the bucket of a place. It makes no request. Errors: INVALID_FORMAT, REQUIRED_FIELD without credentials.
func Open(cfg Config) (*Bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(cfg.Place, "s3://"), "/")
	prefix = strings.Trim(prefix, "/")
	if !strings.HasPrefix(cfg.Place, "s3://") || !bucketForm.MatchString(name) || strings.Contains(name, "..") || prefix != "" && objects.CheckKey(prefix) != nil {
		return nil, fault.New(fault.InvalidFormat, "is not a place such as s3://bucket/prefix")
	}
	if cfg.Credentials.KeyID == "" || cfg.Credentials.Secret == "" {
		return nil, fault.New(fault.RequiredField, "there are no credentials for S3").WithField("s3_secret").
			WithHint("set s3_key_id and s3_secret to the places where they lie, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the node")
	}
	cfg.Region, cfg.Stall, cfg.Pause = cmp.Or(cfg.Region, "us-east-1"), cmp.Or(cfg.Stall, time.Minute), cmp.Or(cfg.Pause, time.Second)
	b := &Bucket{cfg: cfg, signer: signer{cfg.Credentials, cfg.Region, "s3"}}
	if prefix != "" {
		b.prefix = prefix + "/"
	}
	address := cfg.URL
	switch {
	case address != "":
		address = strings.TrimSuffix(address, "/") + "/" + name
	case strings.Contains(name, "."): // no certificate of AWS is for such a host
		address = "https://s3." + cfg.Region + ".amazonaws.com/" + name
	default:
		address = "https://" + name + ".s3." + cfg.Region + ".amazonaws.com"
	}
	var err error
	if b.base, err = url.Parse(address); err != nil || b.base.Host == "" || b.base.User != nil || b.base.Scheme != "http" && b.base.Scheme != "https" {
		return nil, fault.New(fault.InvalidFormat, "is not the URL of a server of S3").WithField("s3_url").WithHint("such as https://minio.example.com")
	}
	b.client = &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 20 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the signature is for one host
	}
	return b, nil
}

// String implements objects.Store.
func (b *Bucket) String() string { return b.cfg.Place }

// Close closes the connections.
func (b *Bucket) Close() error {
	b.client.CloseIdleConnections()
	return nil
}

// request is a request to the server.
type request struct {
	method, key string
	query       url.Values
	header      http.Header
	body        io.ReadSeeker
	size        int64
	sum         string
}

// emptySum is the digest of an empty body.
var emptySum = hex.EncodeToString(sha256.New().Sum(nil)) //nolint:gochecknoglobals // a constant

// Put implements objects.Store.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, sum []byte) error {
	if err := objects.CheckKey(key); err != nil {
		return err
	}
	if size > MaxObject {
		return fault.New(fault.ValidationError, "the object %s has more than %d bytes", key, int64(MaxObject)).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	res, err := b.do(ctx, request{method: http.MethodPut, key: key, body: body, size: size, sum: hex.EncodeToString(sum)})
	if err != nil {
		return err
	}
	return res.Close()
}

// Get implements objects.Store.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := objects.CheckKey(key); err != nil {
		return nil, err
	}
	if length == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	r := request{method: http.MethodGet, key: key, sum: emptySum, header: http.Header{}}
	switch {
	case length > 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	res, err := b.do(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.header.Get("Range") != "" && !res.partial {
		return nil, errors.Join(fault.New(fault.Unavailable, "the server of %s does not send parts of objects", b), res.Close())
	}
	return res, nil
}

// page is a page of a list.
type page struct {
	Contents []struct {
		Key  string `xml:"Key"`
		Size int64  `xml:"Size"`
	} `xml:"Contents"`
	IsTruncated           bool   `xml:"IsTruncated"`
	NextContinuationToken string `xml:"NextContinuationToken"`
}

// List implements objects.Store.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		token := ""
		for {
			p, err := b.page(ctx, prefix, token)
			if err != nil {
				yield(objects.Object{}, err)
				return
			}
			for _, c := range p.Contents {
				key, ok := strings.CutPrefix(c.Key, b.prefix)
				if !ok || !strings.HasPrefix(key, prefix) || objects.CheckKey(key) != nil {
					continue
				}
				if !yield(objects.Object{Key: key, Size: c.Size}, nil) {
					return
				}
			}
			if !p.IsTruncated {
				return
			}
			if p.NextContinuationToken == "" || p.NextContinuationToken == token {
				yield(objects.Object{}, fault.New(fault.Unavailable, "the list of %s does not go on", b))
				return
			}
			token = p.NextContinuationToken
		}
	}
}

func (b *Bucket) page(ctx context.Context, prefix, token string) (p page, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {b.prefix + prefix}}
	if token != "" {
		query.Set("continuation-token", token)
	}
	res, err := b.do(ctx, request{method: http.MethodGet, query: query, sum: emptySum})
	if err != nil {
		return p, err
	}
	err = parsePage(res, &p)
	return p, errors.Join(err, res.Close())
}

// parsePage decodes a page of a list.
func parsePage(r io.Reader, p *page) error {
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the list of objects cannot be read")
	}
	if len(data) > maxAnswer || xml.Unmarshal(data, p) != nil {
		return fault.New(fault.Unavailable, "the list of objects is not as S3 writes it")
	}
	return nil
}

// do makes a request until it succeeds or another attempt is of no use.
func (b *Bucket) do(ctx context.Context, r request) (*response, error) {
	pause := b.cfg.Pause
	for n := 1; ; n++ {
		res, again, err := b.try(ctx, r)
		if err == nil || !again || n == attempts || ctx.Err() != nil {
			return res, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1)) //nolint:gosec // jitter
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}

// try makes a request once. again is set if another attempt may succeed.
func (b *Bucket) try(ctx context.Context, r request) (res *response, again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	watch := &watch{stall: b.cfg.Stall, timer: time.AfterFunc(b.cfg.Stall, cancel)}
	end := func() { watch.timer.Stop(); cancel() }
	defer func() {
		if err != nil {
			end()
		}
	}()
	target := *b.base
	target.Path = strings.TrimSuffix(target.Path, "/") + "/"
	if r.key != "" {
		target.Path += b.prefix + r.key
	}
	target.RawQuery = canonicalQuery(r.query)
	var body io.Reader
	if r.size > 0 { // an empty body has a length too
		if _, err := r.body.Seek(0, io.SeekStart); err != nil {
			return nil, false, fault.Wrap(fault.Internal, err, "the object cannot be read")
		}
		body = io.NopCloser(watch.reader(r.body))
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, false, fault.Wrap(fault.Internal, err, "the request to S3 cannot be made")
	}
	maps.Copy(req.Header, r.header)
	req.ContentLength = r.size
	b.signer.sign(req, r.sum, time.Now())
	answer, err := b.client.Do(req)
	if err != nil {
		return nil, true, fault.New(fault.Unavailable, "%s cannot be reached: %s", b, plainError(err)).WithHint("check s3_url, and whether the server runs")
	}
	if answer.StatusCode/100 != 2 {
		err := b.refusal(answer, r.key)
		_ = answer.Body.Close()
		return nil, answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout, err
	}
	return &response{watch.reader(answer.Body), answer.Body, end, answer.StatusCode == http.StatusPartialContent}, false, nil
}

// plainError returns the cause of an error of a request, without its URL.
func plainError(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, context.Canceled) {
		return "it makes no progress"
	}
	return err.Error()
}

// response is the body of an answer.
type response struct {
	io.Reader

	body    io.Closer
	end     func()
	partial bool
}

// Close implements io.Closer.
func (r *response) Close() error {
	defer r.end()
	return r.body.Close()
}

// watch cancels a request that makes no progress.
type watch struct {
	stall time.Duration
	timer *time.Timer
}

func (w *watch) reader(from io.Reader) io.Reader { return watched{w, from} }

type watched struct {
	watch *watch
	from  io.Reader
}

// Read implements io.Reader.
func (w watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if n > 0 {
		w.watch.timer.Reset(w.watch.stall)
	}
	return n, err
}

// answerError is the body of an answer with an error.
type answerError struct {
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

// refusal returns the error of an answer.
func (b *Bucket) refusal(answer *http.Response, key string) error {
	const most = 64 << 10
	data, _ := io.ReadAll(io.LimitReader(answer.Body, most)) // the status is enough
	var e answerError
	_ = xml.Unmarshal(data, &e) // some answers have no body
	what := fmt.Sprintf("%s answers %d", b, answer.StatusCode)
	if e.Code != "" {
		what += " " + clip(e.Code) + ": " + clip(e.Message)
	}
	switch {
	case answer.StatusCode == http.StatusNotFound && key != "" && e.Code != "NoSuchBucket":
		return fault.New(fault.NotFound, "there is no %s in %s", key, b)
	case answer.StatusCode == http.StatusNotFound:
		return fault.New(fault.NotFound, "%s", what).WithHint("create the bucket, or check its name")
	case answer.StatusCode == http.StatusForbidden, answer.StatusCode == http.StatusUnauthorized:
		return fault.New(fault.Forbidden, "%s", what).WithHint("check s3_key_id, s3_secret and s3_region, the clock, and what the key may do: it needs to list, read and write objects")
	case answer.StatusCode/100 == 3:
		return fault.New(fault.ValidationError, "%s", what).WithField("s3_region").WithHint("the bucket is in another region%s", inRegion(answer.Header.Get("X-Amz-Bucket-Region")))
	case answer.StatusCode == http.StatusInsufficientStorage:
		return fault.New(fault.DiskFull, "%s", what)
	case answer.StatusCode >= http.StatusInternalServerError, answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode == http.StatusRequestTimeout:
		return fault.New(fault.Unavailable, "%s", what).WithHint("try again later; what is archived stays archived")
	default:
		return fault.New(fault.ValidationError, "%s", what)
	}
}

func inRegion(name string) string {
	if name == "" || !bucketForm.MatchString(name) {
		return ""
	}
	return ": " + name
}

// clip shortens foreign text for a message, without control characters.
func clip(text string) string {
	const most = 200
	return fault.Clip(strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text), most)
}
