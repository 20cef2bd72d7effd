package hooks

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/definition"
)

// Provider is the scheme with which a sender signs its deliveries.
type Provider string

// The providers.
const (
	// GitHub signs the body in X-Hub-Signature-256.
	GitHub Provider = "github"
	// Stripe signs a time and the body in Stripe-Signature.
	Stripe Provider = "stripe"
	// Slack signs a time and the body in X-Slack-Signature.
	Slack Provider = "slack"
	// Standard is the scheme of the Standard Webhooks specification: an id, a time and the body in Webhook-Signature.
	Standard Provider = "standard"
	// NATS stands for the messages of a stream of the NATS server. Whoever may publish there needs no signature.
	NATS Provider = "nats"
	// None stands for deliveries without a signature. They need the token of an operator.
	None Provider = "none"
)

// Providers returns all providers.
func Providers() []Provider { return []Provider{GitHub, Stripe, Slack, Standard, NATS, None} }

// Signs reports whether the sender signs its deliveries.
func (p Provider) Signs() bool { return p != None && p != NATS }

// Definition says which deliveries a hook takes, and what they do: they start tasks of a plan, or signal a task.
type Definition struct {
	Provider Provider `json:"provider"`
	// NATS is the stream of the provider nats.
	NATS *Stream `json:"nats,omitempty"`
	// When is an expression that chooses deliveries; empty for all.
	When string `json:"when,omitempty"`
	// Plan is the plan of the tasks: in a file, its path or the plan itself.
	Plan json.RawMessage `json:"plan,omitempty"`
	// Inputs are the inputs of each task. Their texts may contain expressions.
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Signal is sent to a task instead of starting one.
	Signal *Signal `json:"signal,omitempty"`
	// Headers are further headers that expressions see, by their names in lower case.
	Headers []string `json:"headers,omitempty"`
	// Note says what the hook is for.
	Note string `json:"note,omitempty"`
}

// Signal is a signal to a task. The texts may contain expressions.
type Signal struct {
	// Task is the id of the task, Name the name of the signal.
	Task string `json:"task"`
	Name string `json:"name"`
	// Data is what the waiting step gets. Default: the body.
	Data json.RawMessage `json:"data,omitempty"`
}

// Limits of a definition.
const (
	// MaxText bounds the plan with its inputs, in bytes.
	MaxText = 256 << 10
	// MaxHeaders bounds Definition.Headers.
	MaxHeaders = 16
	// MaxNote bounds a note, in bytes.
	MaxNote = 1024
)

// PlanName returns the name of the plan; empty if it has none.
func (d *Definition) PlanName() string {
	source := d.Plan
	var text string
	if json.Unmarshal(source, &text) == nil { // a plan text
		source, _ = definition.Kind{Name: "plan", Most: MaxText}.Read([]byte(text)) // nil if it cannot be read
	}
	var plan struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(source, &plan) // then it has no name
	return plan.Name
}

// Brief returns the definition without what can be large: its plan, the inputs and the data of its signal.
func (d *Definition) Brief() Definition {
	brief := *d
	brief.Plan, brief.Inputs = nil, nil
	if d.Signal != nil {
		brief.Signal = &Signal{Task: d.Signal.Task, Name: d.Signal.Name}
	}
	return brief
}

var headerForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Check returns the first problem of a definition. It does not look into the plan and the expressions.
func (d *Definition) Check() error {
	switch {
	case d.Provider == "":
		return fault.New(fault.RequiredField, "is missing").WithField("provider").WithHint("use %s", providerNames())
	case !slices.Contains(Providers(), d.Provider):
		return fault.New(fault.ValidationError, "%q is not a provider", clip(string(d.Provider))).WithField("provider").WithHint("use %s", providerNames())
	case len(d.Plan) == 0 && d.Signal == nil:
		return fault.New(fault.RequiredField, "is missing").WithField("plan").WithHint("a hook starts the tasks of a plan, or signals a task")
	case len(d.Plan) > 0 && d.Signal != nil:
		return fault.New(fault.ValidationError, "a hook has a plan or a signal, not both").WithField("signal")
	case d.Signal != nil && d.Signal.Task == "":
		return fault.New(fault.RequiredField, "is missing").WithField("signal.task").WithHint("such as ${{ hook.body.task }}")
	case d.Signal != nil && d.Signal.Name == "":
		return fault.New(fault.RequiredField, "is missing").WithField("signal.name")
	case d.Signal != nil && len(d.Inputs) > 0:
		return fault.New(fault.ValidationError, "a signal has data, and no inputs").WithField("inputs").WithHint("write them as signal.data")
	case d.size() > MaxText:
		return fault.New(fault.ValidationError, "the definition has %d bytes, the limit is %d", d.size(), MaxText).WithField("plan")
	case len(d.Note) > MaxNote:
		return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(d.Note), MaxNote).WithField("note")
	}
	if err := d.checkStream(); err != nil {
		return err
	}
	return d.checkHeaders()
}

func (d *Definition) size() int {
	n := len(d.Plan) + len(d.Inputs) + len(d.When)
	if d.Signal != nil {
		n += len(d.Signal.Task) + len(d.Signal.Name) + len(d.Signal.Data)
	}
	return n
}

func (d *Definition) checkHeaders() error {
	if len(d.Headers) > MaxHeaders {
		return fault.New(fault.ValidationError, "there are %d headers, the limit is %d", len(d.Headers), MaxHeaders).WithField("headers")
	}
	for _, name := range d.Headers {
		switch {
		case !headerForm.MatchString(name):
			return fault.New(fault.InvalidFormat, "%q is not a name of a header in lower case", clip(name)).WithField("headers")
		case isSecretHeader(name):
			return fault.New(fault.ValidationError, "the header %s may contain a secret", name).WithField("headers").
				WithHint("expressions do not see it; leave it out")
		}
	}
	return nil
}

// isSecretHeader reports whether a header contains a credential or a signature.
func isSecretHeader(name string) bool {
	for _, part := range []string{"authorization", "cookie", "signature", "token", "secret", "password", "api-key", "apikey", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func providerNames() string {
	names := make([]string, 0, len(Providers()))
	for _, p := range Providers() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// clip shortens a text for a message.
func clip(text string) string { return fault.Clip(text, 60) }

// ValidName reports whether a hook may have a name.
func ValidName(name string) bool { return definition.ValidName(name) }

// CheckName returns an INVALID_FORMAT error unless a hook may have a name.
func CheckName(name string) error { return definition.CheckName("hook", name) }

// Result is what became of a delivery.
type Result string

// The results.
const (
	// Accepted deliveries have started or signalled a task.
	Accepted Result = "accepted"
	// Duplicate deliveries were accepted before.
	Duplicate Result = "duplicate"
	// Filtered deliveries were not chosen by the hook.
	Filtered Result = "filtered"
	// Refused deliveries have a valid signature, but could not do what the hook says.
	Refused Result = "refused"
	// Rejected requests have no valid signature. They are counted, and nothing of them is recorded.
	Rejected Result = "rejected"
	// Limited deliveries were too many. They are counted only.
	Limited Result = "limited"
	// Failed deliveries could not be taken at the time, and the sender was asked to send them again. They are counted only.
	Failed Result = "failed"
)

// Results returns all results.
func Results() []Result {
	return []Result{Accepted, Duplicate, Filtered, Refused, Rejected, Limited, Failed}
}

// Outcome is a delivery with its result.
type Outcome struct {
	At time.Time `json:"at"`
	// Delivery is its id; empty if it has none.
	Delivery string `json:"delivery,omitempty"`
	Result   Result `json:"result"`
	// Event is what the sender calls its kind, such as push.
	Event string `json:"event,omitempty"`
	// Reason says why a delivery did nothing.
	Reason string `json:"reason,omitempty"`
	// Task is the task that it has started or signalled.
	Task string `json:"task,omitempty"`
}

// MaxOutcomes bounds the outcomes that are kept of a hook.
const MaxOutcomes = 100

// Pause is set while a hook is paused.
type Pause struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"`
}
