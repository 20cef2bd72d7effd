package plan

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/orch-dev/orch/fault"
)

// HookInfo contains the value of hook in expressions. It is zero for tasks that no hook has started: hook.name is then empty, and
// hook.body is null, so that a plan of a hook can be submitted by hand.
type HookInfo struct {
	Name, Delivery string
	// Subject is the subject of a message of a NATS stream; empty for other deliveries.
	Subject string
	// Headers are the headers of the delivery, by their names in lower case.
	Headers map[string]string
	// Body is the body of the delivery as JSON.
	Body json.RawMessage
}

// hookValue returns the value of hook in expressions.
func (sc Scope) hookValue() (map[string]any, error) {
	var h HookInfo
	if sc.Hook != nil {
		h = sc.Hook()
	}
	body, err := decodePart(h.Body, "the body of the delivery")
	headers := make(map[string]any, len(h.Headers))
	for name, value := range h.Headers {
		headers[name] = value
	}
	return map[string]any{"name": h.Name, "delivery": h.Delivery, "subject": h.Subject, "headers": headers, "body": body}, err
}

// HookRules are the compiled expressions of a hook, which see only hook. They are immutable and safe for concurrent use.
type HookRules struct{ when, values *field }

// CompileHook compiles an expression that chooses deliveries, "" for all, and values with templates, a JSON object. Errors:
// VALIDATION_ERROR with the field.
func CompileHook(when string, values json.RawMessage) (*HookRules, error) {
	const fieldWhen = "when"
	source := map[string]json.RawMessage{}
	if len(values) > 0 {
		if err := json.Unmarshal(values, &source); err != nil {
			return nil, fault.New(fault.InvalidFormat, "the values are not an object")
		}
	}
	chosen, err := encode(when)
	if err != nil {
		return nil, err
	}
	source[fieldWhen] = chosen
	src, err := json.Marshal(source)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "the values are not JSON")
	}
	l := &loader{opt: Options{Accepted: true}, languages: languages{}}
	doc := readDocument("hook", src, sourceBounds(), &l.problems, nil)
	if doc == nil {
		return nil, hookFault(l.problems.fault())
	}
	lk, at := &linker{loader: l, plan: &Plan{}}, location{doc: doc}
	scope, rules := lk.scope("the hook", rootHook), &HookRules{}
	if stripDelimiters(when) != "" {
		rules.when = scope.expressionField(stripDelimiters(when), at.field(fieldWhen))
	}
	if object, ok := (cursor{at, doc.root}).value().(map[string]any); ok {
		delete(object, fieldWhen)
		rules.values = scope.field(object, at)
	}
	return rules, hookFault(l.problems.fault())
}

// CheckHook checks the expressions of a definition that is not stored yet. Errors: those of [CompileHook], and VALIDATION_ERROR if the
// expression that chooses can be neither true nor false, whatever is delivered.
func CheckHook(when string, values json.RawMessage) error {
	rules, err := CompileHook(when, values)
	if err != nil {
		return err
	}
	return rules.checkWhen()
}

// hookFault returns the first problem of a hook as an error with its field; nil for none.
func hookFault(err error) error {
	ps, found := errors.AsType[Problems](err)
	if !found {
		return err
	}
	f := fault.New(fault.ValidationError, "%s", ps[0].Message).WithField(ps[0].Path)
	if hint := ps[0].Hint; hint != "" {
		return f.WithHint("%s", hint)
	}
	return f
}

// Chooses reports whether a delivery is chosen. Errors: VALIDATION_ERROR if the expression fails or is not true or false.
func (r *HookRules) Chooses(h HookInfo) (bool, error) {
	if r.when == nil {
		return true, nil
	}
	v, err := r.when.value(Scope{Hook: func() HookInfo { return h }}, nil)
	if err != nil {
		return false, err
	}
	chosen, ok := v.(bool)
	if !ok {
		return false, fault.New(fault.ValidationError, "the expression gives %s, not true or false", typeName(v)).WithField("when").
			WithHint("compare: hook.body.action == \"opened\"")
	}
	return chosen, nil
}

// checkWhen returns VALIDATION_ERROR if the expression that chooses can be neither true nor false, whatever is delivered: because of its
// type, or because it is a constant that fails.
func (r *HookRules) checkWhen() error {
	if r.when == nil {
		return nil
	}
	if e, ok := r.when.template.(*expression); ok {
		if what, always := e.neverTruth(); always {
			return fault.New(fault.ValidationError, "the expression gives %s, not true or false", what).WithField("when").
				WithHint("compare: hook.body.action == \"opened\"")
		}
	}
	if r.when.uses[rootHook] {
		return nil
	}
	if _, err := r.Chooses(HookInfo{}); err != nil {
		return fault.From(err).WithField("when")
	}
	return nil
}

// neverTruth returns what an expression gives if its type says that this is never true or false.
func (e *expression) neverTruth() (what string, always bool) {
	t := e.code.Node().Type()
	if t == nil {
		return "", false
	}
	switch t.Kind() {
	case reflect.String:
		return "a text", true
	case reflect.Int, reflect.Float64:
		return "a number", true
	case reflect.Slice, reflect.Array:
		return "a list", true
	case reflect.Map:
		return "an object", true
	default:
		return "", false
	}
}

// Values evaluates the values for a delivery.
func (r *HookRules) Values(h HookInfo) (json.RawMessage, error) {
	return r.values.json(Scope{Hook: func() HookInfo { return h }})
}
