package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/rpc"
)

// RefusedMethod is the method that an MCP server in another process calls to report a refused call.
const RefusedMethod = bus.AuditPrefix + ".refused"

// Refusal is a call that was refused before a task was created, so no task records it.
type Refusal struct {
	// By is the identity that made the call.
	By string `json:"by"`
	// Tool and Args are the tool and its arguments. For a refused plan, Tool is empty and Args is the plan. Task is the task that
	// the call would have belonged to, if any.
	Tool string          `json:"tool,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`
	Task events.TaskID   `json:"task,omitempty"`
	// Error is the reason.
	Error *fault.Error `json:"error"`
}

// ActorFields implements rpc.ActorRequest.
func (r *Refusal) ActorFields() []*string { return []*string{&r.By} }

// auditedAPI reports submissions and calls that are refused.
type auditedAPI struct {
	api.API

	report func(Refusal)
}

// Submit implements api.API.
func (a auditedAPI) Submit(ctx context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	reply, err := a.API.Submit(ctx, r)
	a.submitted(r, err)
	return reply, err
}

// SubmitBatch implements api.API.
func (a auditedAPI) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	reply, err := a.API.SubmitBatch(ctx, r)
	for i, item := range reply.Tasks {
		if item.Error != nil {
			a.submitted(r.Tasks[i], item.Error)
		}
	}
	return reply, err
}

func (a auditedAPI) submitted(r api.SubmitRequest, err error) {
	if err != nil {
		tool, args := soleCall(r.Plan)
		a.report(Refusal{By: r.Actor, Tool: tool, Args: args, Error: fault.From(err)})
	}
}

// Call implements api.API.
func (a auditedAPI) Call(ctx context.Context, r api.CallRequest) (api.CallReply, error) {
	reply, err := a.API.Call(ctx, r)
	if err != nil {
		a.report(Refusal{By: r.Actor, Tool: r.Tool, Args: r.Args, Task: r.ID, Error: fault.From(err)})
	}
	return reply, err
}

// soleCall returns the tool and the arguments of a plan that has a single step. For any other plan, it returns no tool and the
// plan.
func soleCall(plan json.RawMessage) (tool string, args json.RawMessage) {
	var parsed struct {
		Steps []struct {
			Tool string          `json:"tool"`
			With json.RawMessage `json:"with"`
		} `json:"steps"`
	}
	if json.Unmarshal(plan, &parsed) == nil && len(parsed.Steps) == 1 && parsed.Steps[0].Tool != "" {
		return parsed.Steps[0].Tool, parsed.Steps[0].With
	}
	return "", plan
}

// isRefusal reports whether an error is a refusal: the caller lacks a permission, or the request is invalid. Failures of the node
// or its disk, timeouts, and calls that wait for an approval are not refusals.
func isRefusal(err *fault.Error) bool {
	return err != nil && !slices.Contains([]fault.Code{
		fault.Internal, fault.Unavailable, fault.Cancelled, fault.Timeout, fault.DiskFull, fault.DataLoss, fault.ApprovalRequired,
	}, err.Code)
}

// The limits of the records of refusals. Refusals beyond them are only counted.
const (
	// maxRefusalKinds limits the kinds of refusals in one record, maxKindsEach limits the kinds of one identity.
	maxRefusalKinds, maxKindsEach = 50, 10
	// maxShownArgs limits the bytes of the arguments in a record, maxShownName limits the bytes of a name.
	maxShownArgs, maxShownName = 512, 128
	// While refusals continue, the interval between two records doubles from minRecordInterval to maxRecordInterval.
	minRecordInterval, maxRecordInterval = time.Minute, time.Hour
)

// overflowName replaces the names of identities and tools beyond the limits.
const overflowName = "*"

// refusalKind is the key for counting refusals: equal refusals are counted together.
type refusalKind struct {
	by, tool, field string
	code            fault.Code
}

// refusalCount counts the refusals of one kind.
type refusalCount struct {
	// Refusal is the first refusal of the kind, and argsDigest is the digest of its arguments.
	Refusal

	argsDigest  string
	count       int
	first, last time.Time
}

// refusalCounter counts refusals until they are recorded.
type refusalCounter struct {
	kinds map[refusalKind]*refusalCount
	// kindsEach is the number of kinds of each identity.
	kindsEach map[string]int
}

// add counts a refusal.
func (c *refusalCounter) add(r Refusal, now time.Time) {
	k := refusalKind{truncate(r.By), truncate(r.Tool), truncate(r.Error.Field), r.Error.Code}
	if c.kinds[k] == nil && c.kindsEach[k.by] >= maxKindsEach {
		k, r = refusalKind{by: k.by, tool: overflowName}, Refusal{By: r.By, Tool: overflowName}
	}
	if c.kinds[k] == nil && len(c.kinds) >= maxRefusalKinds {
		k, r = refusalKind{by: overflowName, tool: overflowName}, Refusal{By: overflowName, Tool: overflowName}
	}
	n := c.kinds[k]
	if n == nil {
		if c.kinds == nil {
			c.kinds, c.kindsEach = map[refusalKind]*refusalCount{}, map[string]int{}
		}
		n = &refusalCount{Refusal: r, first: now}
		if len(r.Args) > 0 {
			sum := sha256.Sum256(r.Args)
			n.argsDigest, n.Args = hex.EncodeToString(sum[:]), slices.Clone(r.Args[:min(len(r.Args), maxReadArgs)])
		}
		c.kinds[k] = n
		c.kindsEach[k.by]++
	}
	n.count++
	n.last = now
}

// maxReadArgs limits the bytes of the arguments that are kept until they are recorded, and then searched for secrets.
const maxReadArgs = 4 << 10

// drain returns the counts, sorted by the time of the first refusal, and resets the counter.
func (c *refusalCounter) drain() []*refusalCount {
	var all []*refusalCount
	for _, n := range c.kinds {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *refusalCount) int {
		return cmp.Or(a.first.Compare(b.first), strings.Compare(a.By, b.By), strings.Compare(a.Tool, b.Tool))
	})
	*c = refusalCounter{}
	return all
}

// truncate shortens untrusted text to maxShownName bytes.
func truncate(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxShownName)], "")
}

// journal records in the log events that belong to no task: refused calls, and changes of external MCP servers.
type journal struct {
	*host

	// changes are changes of MCP servers that are not recorded yet.
	changes chan registry.Change
	// refusals are refused calls that are not recorded yet.
	refusals chan Refusal
}

// refused queues a refusal to be recorded. If the queue is full, it writes the refusal to the log of the process instead.
func (jn *journal) refused(r Refusal) {
	if !isRefusal(r.Error) {
		return
	}
	select {
	case jn.refusals <- r:
	default:
		jn.cfg.logger().Warn("refusal_not_noted", slog.String("by", truncate(r.By)), slog.String("tool", truncate(r.Tool)), slog.String("code", string(r.Error.Code)))
	}
}

// maxRefusals limits the refusals that wait to be counted.
const maxRefusals = 1000

// startRefusals starts to record refused calls, including those that MCP servers in other processes report.
func (jn *journal) startRefusals(ctx context.Context) error {
	end, err := rpc.Serve(jn.requests, bus.AuditPrefix, jn.auditMethods(), jn.forOperator())
	if err != nil {
		return err
	}
	jn.onStop(closeSoon(end))
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		jn.recordRefusals(run)
	}()
	jn.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}

func (jn *journal) auditMethods() localMethods {
	return localMethods{"refused": rpc.Handle(func(_ context.Context, r Refusal) (struct{}, error) {
		jn.refused(r)
		return struct{}{}, nil
	})}
}

// recordRefusals counts and records refusals until ctx ends. It then records the remaining ones.
func (jn *journal) recordRefusals(ctx context.Context) {
	var counter refusalCounter
	var pace recordPace
	var due <-chan time.Time
	for {
		select {
		case r := <-jn.refusals:
			counter.add(r, time.Now().UTC())
			if due == nil {
				due = time.After(pace.next(time.Now()))
			}
		case <-due:
			jn.submitRefusals(ctx, counter.drain())
			due = nil
		case <-ctx.Done():
			for len(jn.refusals) > 0 {
				counter.add(<-jn.refusals, time.Now().UTC())
			}
			jn.submitRefusals(context.WithoutCancel(ctx), counter.drain())
			return
		}
	}
}

// recordPace determines when the next record is due: soon for the first refusal after a pause, then at growing intervals while
// refusals continue.
type recordPace struct {
	due  time.Time
	wait time.Duration
}

// next returns the time until the next record.
func (p *recordPace) next(now time.Time) time.Duration {
	if p.due.IsZero() || now.Sub(p.due) > max(2*p.wait, minRecordInterval) {
		p.wait = collectFor
	} else {
		p.wait = min(max(2*p.wait, minRecordInterval), maxRecordInterval)
	}
	p.due = now.Add(p.wait)
	return p.wait
}

// submitRefusals submits a task that records refusals. If the node refuses it because of the recorded arguments, it submits the
// task again without arguments.
func (jn *journal) submitRefusals(ctx context.Context, counts []*refusalCount) {
	if len(counts) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, recordWithin)
	defer stop()
	var err error
	for _, args := range []bool{true, false} {
		_, err = jn.orch.Submit(ctx, api.SubmitRequest{Plan: jn.refusalPlan(counts, args), Actor: "system:audit"})
		if err == nil {
			return
		}
	}
	jn.cfg.logger().WarnContext(ctx, "refusals_not_noted", slog.Int("kinds", len(counts)), slog.Any("error", err))
}

// refusalPlan returns a plan that writes refusals into the log of its task. args includes their arguments.
func (jn *journal) refusalPlan(counts []*refusalCount, args bool) json.RawMessage {
	type object = map[string]any
	steps, total := []object{}, 0
	for i, c := range counts {
		total += c.count
		steps = append(steps, object{"id": "refused_" + strconv.Itoa(i+1), "tool": "LOG_WRITE", "with": object{
			"level": "WARN", "message": jn.literal(c.message()), "context": jn.contextOfRefusal(c, args),
		}})
	}
	plan, err := json.Marshal(object{
		"orch": "v1", "name": api.OwnPrefix + "refused", "summary": fmt.Sprintf("%d refused calls", total), "steps": steps,
	})
	if err != nil {
		panic(err) // only texts
	}
	return plan
}

// message returns a sentence about the refusals.
func (c *refusalCount) message() string {
	text := truncate(c.By) + " was refused " + cmp.Or(truncate(c.Tool), "a plan")
	if c.count > 1 {
		text += fmt.Sprintf(" %d times", c.count)
	}
	if c.Error == nil {
		return text + ": several reasons"
	}
	text += ": " + string(c.Error.Code)
	if c.Error.Field != "" {
		text += " (" + truncate(c.Error.Field) + ")"
	}
	return text
}

// contextOfRefusal returns the fields of a refusal, without secrets.
func (jn *journal) contextOfRefusal(c *refusalCount, args bool) map[string]any {
	all := map[string]any{
		"event": "call_refused", "by": jn.literal(truncate(c.By)), "count": c.count, "first": c.first.Format(time.RFC3339), "last": c.last.Format(time.RFC3339),
	}
	for name, value := range map[string]string{"tool": c.Tool, "task": string(c.Task)} {
		if value != "" {
			all[name] = jn.literal(truncate(value))
		}
	}
	if c.Error != nil {
		all["code"] = string(c.Error.Code)
		if c.Error.Field != "" {
			all["field"] = jn.literal(truncate(c.Error.Field))
		}
		if c.Error.Reason != "" {
			all["reason"] = jn.literal(truncate(c.Error.Reason))
		}
	}
	if c.argsDigest == "" {
		return all
	}
	all["args_sha256"] = c.argsDigest
	if text, ok := jn.shownArgs(c); ok && args {
		all["args"] = jn.literal(text)
	}
	return all
}

// shownArgs returns the arguments of a refusal, truncated for a record; false if they contain a secret.
func (jn *journal) shownArgs(c *refusalCount) (string, bool) {
	if _, secret := jn.executor.policy.Redact(c.Args); secret || c.Error == nil || c.Error.Code == fault.SecretDetected {
		return "", false
	}
	text := string(c.Args)
	if len(text) > maxShownArgs {
		text = text[:maxShownArgs] + "…"
	}
	return strings.ToValidUTF8(text, ""), true
}

// literal returns untrusted text in a form that is safe in a plan: without secrets, and with "${{" escaped.
func (jn *journal) literal(text string) string {
	clean, _ := jn.executor.policy.Redact([]byte(text))
	return strings.ReplaceAll(string(clean), "${{", "$${{")
}
