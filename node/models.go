package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/anthropic"
	"github.com/orch-dev/orch/models/breaker"
	"github.com/orch-dev/orch/models/directory"
	"github.com/orch-dev/orch/models/gemini"
	"github.com/orch-dev/orch/models/openai"
	"github.com/orch-dev/orch/models/script"
	"github.com/orch-dev/orch/models/wire"
	"github.com/orch-dev/orch/tools/model"
)

// NewModels returns the models of the settings, and the scripts below a root. Credentials are read for each request, with getenv
// for those in variables.
func NewModels(cfg config.Models, root *pathguard.Root, getenv func(string) string) *directory.Directory {
	d := directory.Config{Open: map[string]func() (models.Provider, error){}, Prices: map[string]directory.Price{}, Slots: map[string]int{}}
	for name, p := range cfg.Providers {
		d.Open[name] = func() (models.Provider, error) { return openProvider(name, p, getenv) }
		d.Slots[name] = p.Slots()
	}
	for name, p := range cfg.Prices {
		d.Prices[name] = directory.Price(p)
	}
	scripts := &scriptReader{root: root, known: map[string]knownScript{}}
	d.Script = scripts.open
	return directory.New(d)
}

// openProvider opens a provider.
func openProvider(name string, p config.ModelProvider, getenv func(string) string) (models.Provider, error) {
	c := wire.Config{BaseURL: p.URL, Idle: p.Idle, Fields: p.Fields}
	if p.Key != "" {
		c.Key = func() (string, error) { return p.Key.Read(getenv) }
	}
	if len(p.Headers) > 0 {
		c.Headers = func() (map[string]string, error) { return readHeaders(p.Headers, getenv) }
	}
	transport, err := newTransport()
	if err != nil {
		return nil, err
	}
	if p.CA != "" {
		if transport.TLSClientConfig, err = trusting(p.CA); err != nil {
			return nil, fault.From(err).WithField("models.providers." + name + ".ca")
		}
	}
	c.Client = &http.Client{Transport: transport}
	switch p.Wire {
	case openai.Wire:
		return openai.New(c), nil
	case anthropic.Wire:
		return anthropic.New(c), nil
	case gemini.Wire:
		return gemini.New(c), nil
	default:
		return nil, fault.New(fault.Internal, "the provider %s has the unknown wire %q", name, p.Wire)
	}
}

// readHeaders reads the values of headers.
func readHeaders(headers map[string]config.ModelHeader, getenv func(string) string) (map[string]string, error) {
	values := map[string]string{}
	for name, h := range headers {
		value, err := h.Read(getenv)
		if err != nil {
			return nil, fault.From(err).WithField(name)
		}
		values[name] = value
	}
	return values, nil
}

// maxCA limits the bytes of a file with root certificates.
const maxCA = 1 << 20

// keptConnections limits the connections to a provider that are kept for further requests. The default of net/http is 2: many agents
// then open one for almost each turn.
const keptConnections = 64

// newTransport returns a transport with the defaults of net/http that keeps more connections.
func newTransport() (*http.Transport, error) {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fault.New(fault.Internal, "the default transport of net/http was replaced")
	}
	transport := standard.Clone()
	transport.MaxIdleConnsPerHost = keptConnections
	return transport, nil
}

// trusting returns the settings of TLS that also trust the root certificates in a file.
func trusting(file string) (*tls.Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.New(fault.CodeOf(err), "the root certificates cannot be read: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCA))
	if err != nil {
		return nil, fault.New(fault.CodeOf(err), "the root certificates cannot be read: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a system without certificates of its own
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fault.New(fault.ValidationError, "%s contains no certificate in the form PEM", file)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// maxScript limits the bytes of a script.
const maxScript = 1 << 20

// ScriptFolder is the folder of the models that are scripts, below the root. No tool may write there, and no other file is read as
// a script: its errors would show what is in the file.
const ScriptFolder = ".orch/models"

var scriptName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Scripts returns the sorted names of the scripts below a root.
func Scripts(root *pathguard.Root) ([]string, error) {
	entries, err := root.ReadDir(ScriptFolder)
	if err != nil && !fault.Has(err, fault.NotFound) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && !e.IsDir() && scriptName.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// scriptReader opens the scripts below a root. It is safe for concurrent use.
type scriptReader struct {
	root *pathguard.Root

	mu    sync.Mutex // guards known
	known map[string]knownScript
}

// knownScript is a script as it was last read.
type knownScript struct {
	text  []byte
	model *script.Provider
}

// open opens a model that answers from a file in the folder of scripts. A script that has not changed is not parsed again.
func (r *scriptReader) open(name string) (models.Provider, error) {
	if !scriptName.MatchString(name) {
		return nil, fault.New(fault.ValidationError, "%q is no name of a script", name).WithField("agent.model").
			WithHint("write script:NAME for the file %s/NAME.yaml", ScriptFolder)
	}
	file := path.Join(ScriptFolder, name+".yaml")
	text, err := r.root.ReadFile(file, maxScript)
	if err != nil {
		return nil, fault.From(err).WithField("agent.model")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, ok := r.known[name]; ok && bytes.Equal(k.text, text) {
		return k.model, nil
	}
	p, err := script.New(bytes.NewReader(text))
	if err != nil {
		return nil, fault.New(fault.ValidationError, "%s: %v", file, err).WithField("agent.model")
	}
	r.known[name] = knownScript{text, p}
	return p, nil
}

// prices gives the owner the prices of the models.
type prices struct{ *directory.Directory }

// Price implements orchestrator.Models.
func (p prices) Price(name string) (events.Price, bool, error) {
	price, known, err := p.Directory.Price(name)
	return events.Price(price), known, err
}

// failing returns the providers that have failed since their last answer, sorted by name.
func failing(breakers map[string]breaker.Status) (all []api.ProviderView) {
	for _, name := range slices.Sorted(maps.Keys(breakers)) {
		b := breakers[name]
		if b.Failures == 0 {
			continue
		}
		v := api.ProviderView{Name: name, State: string(b.State), Failures: b.Failures, Error: b.Error}
		if !b.Until.IsZero() {
			v.Until = new(b.Until)
		}
		all = append(all, v)
	}
	return all
}

// budgets returns what requests to models may cost on the node.
func (c Config) budgets() []costs.Budget {
	var all []costs.Budget
	for _, b := range c.Models.Budgets {
		all = append(all, costs.Budget(b))
	}
	return all
}

// modelNode returns what MODEL_CALL needs of the node; nil in a process without a node.
func (h *executor) modelNode() model.Node {
	a := h.nodeInfo.Load()
	if a == nil {
		return nil
	}
	return asking{a.n, h.models}
}

// asking connects MODEL_CALL with the history and the providers.
type asking struct {
	n *Node
	*directory.Directory
}

// Provider implements model.Node.
func (a asking) Provider(task events.TaskID, name string) (models.Provider, string, error) {
	if directory.Recorded(name) {
		return a.recorded(task, name)
	}
	return a.Directory.Provider(name)
}

// Request implements model.Node.
func (a asking) Request(ctx context.Context, task events.TaskID, args models.CallArgs) (models.Request, []string, int, error) {
	return a.n.orch.ModelRequest(ctx, task, args)
}
