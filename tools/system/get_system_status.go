package system

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// The states of a component of the system.
const (
	// Up: the component answers. Down: it does not. Off: it is not configured or was switched off.
	Up   = "up"
	Down = "down"
	Off  = "off"
)

// Part is the result of probing one component.
type Part struct {
	Name string
	// Status is Up, Down or Off.
	Status string
	// Latency is the duration of the probe; 0 when there was none.
	Latency time.Duration
	// Why is the public reason for Down, without addresses and texts of other systems.
	Why string
	// Limit is the rate limit of GitHub; nil when it was not queried.
	Limit *Limit
}

// Limit is a rate limit.
type Limit struct {
	Limit     int       `json:"limit"`
	Remaining int       `json:"remaining"`
	ResetAt   time.Time `json:"reset_at"`
}

// Health probes the components of the system. A probe ends when its context ends.
type Health interface {
	// NATS and JetStream probe the NATS server and the log. JetStream is Down when it accepts no commits.
	NATS(ctx context.Context) Part
	JetStream(ctx context.Context) Part
	// Servers probes the configured external MCP servers. A server that is enabled but not ready is Down.
	Servers(ctx context.Context) []Part
	Firebase(ctx context.Context) Part
	GitHub(ctx context.Context) Part
	// Process measures the process of the node.
	Process() Process
}

// Process is the state of the process of the node.
type Process struct {
	Uptime time.Duration
	// Memory is the memory in use, in MiB.
	Memory float64
	// CPU is the recent usage of one core, in percent.
	CPU float64
	// Paused is true when the node starts no calls.
	Paused bool
}

// The overall status (S3-122).
const (
	healthy  = "healthy"
	degraded = "degraded"
	critical = "critical"
)

// probeTime is the time limit for all probes of a call.
const probeTime = 5 * time.Second

type getSystemStatusIn struct {
	IncludeServices     *bool `json:"includeServices,omitempty" jsonschema:"Show firebase and github" default:"true"`
	IncludeMetrics      *bool `json:"includeMetrics,omitempty" jsonschema:"Show metrics" default:"true"`
	IncludeDependencies bool  `json:"includeDependencies,omitempty" jsonschema:"Show NATS, JetStream and the external MCP servers" default:"false"`
}

type getSystemStatusOut struct {
	Status       string        `json:"status" jsonschema:"critical when the log accepts no writes, degraded when a server or a service fails" enum:"healthy,degraded,critical"`
	Timestamp    time.Time     `json:"timestamp" jsonschema:"Time of the check"`
	Version      string        `json:"version,omitempty" jsonschema:"Version of orch"`
	Services     *services     `json:"services,omitempty" jsonschema:"Services outside of the node"`
	Metrics      *metrics      `json:"metrics,omitempty" jsonschema:"Metrics of the node"`
	Alerts       []alert       `json:"alerts,omitempty" jsonschema:"Problems that need attention"`
	Dependencies *dependencies `json:"dependencies,omitempty" jsonschema:"Services that the node depends on"`
}

type services struct {
	Firebase service       `json:"firebase,omitzero" jsonschema:"The Firebase backend"`
	GitHub   githubService `json:"github,omitzero" jsonschema:"The GitHub API"`
}

type service struct {
	Status  string   `json:"status,omitempty" jsonschema:"up, down or off"`
	Latency *float64 `json:"latency,omitempty" jsonschema:"Time of the probe in milliseconds"`
	Errors  *int     `json:"errors,omitempty" jsonschema:"Number of calls that failed because of it"`
}

type githubService struct {
	Status    string       `json:"status,omitempty" jsonschema:"up, down or off"`
	RateLimit tools.Object `json:"rateLimit,omitempty" jsonschema:"limit, remaining and reset_at"`
	Latency   *float64     `json:"latency,omitempty" jsonschema:"Time of the probe in milliseconds"`
}

type metrics struct {
	ActiveAgents    *int              `json:"activeAgents,omitempty" jsonschema:"Agents that are not offline"`
	TasksInQueue    *int              `json:"tasksInQueue,omitempty" jsonschema:"Open tasks"`
	AvgResponseTime *float64          `json:"avgResponseTime,omitempty" jsonschema:"Mean duration of a call in milliseconds"`
	SuccessRate     *float64          `json:"successRate,omitempty" jsonschema:"Share of successful calls, 0 to 1; absent when there were no calls"`
	Errors          map[string]uint64 `json:"errors,omitempty" jsonschema:"Number of failed calls by error code"`
	Uptime          *int              `json:"uptime,omitempty" jsonschema:"Time since the start of the node, in seconds"`
	MemoryUsage     *float64          `json:"memoryUsage,omitempty" jsonschema:"Memory of the process in MiB"`
	CPUUsage        *float64          `json:"cpuUsage,omitempty" jsonschema:"Share of one core that the process used lately, in percent"`
}

type alert struct {
	Level     string    `json:"level,omitempty" jsonschema:"critical, warning or info"`
	Message   string    `json:"message,omitempty" jsonschema:"Description"`
	Timestamp time.Time `json:"timestamp,omitzero" jsonschema:"Time of the observation"`
}

type dependencies struct {
	NATS      dependency   `json:"nats" jsonschema:"The NATS server"`
	JetStream dependency   `json:"jetstream" jsonschema:"The log"`
	Servers   []dependency `json:"servers" jsonschema:"The external MCP servers"`
}

type dependency struct {
	Name    string   `json:"name" jsonschema:"Its name"`
	Status  string   `json:"status" jsonschema:"up, down or off"`
	Latency *float64 `json:"latency,omitempty" jsonschema:"Time of the probe in milliseconds"`
}

// getSystemStatus is system.getSystemStatus (S3-120 to S3-122).
func getSystemStatus(cfg Config) tools.Tool {
	return tools.Define(readSpec(tools.Spec{
		Name:       "system.getSystemStatus",
		Title:      "Show the status of the system",
		Purpose:    "Get overall system status and health",
		Conditions: []string{"Runs without the log when the log accepts no writes"},
		Unlogged:   true,
		Errors:     []string{"VALIDATION_ERROR", "TOOL_UNAVAILABLE"},
	}), func(ctx context.Context, env *tools.Env, in getSystemStatusIn) (getSystemStatusOut, error) {
		node, err := cfg.node()
		if err != nil {
			return getSystemStatusOut{}, err
		}
		ctx, stop := context.WithTimeout(ctx, probeTime)
		defer stop()
		now := *timestamp(env.Now())
		results := node.probe(ctx)
		out := getSystemStatusOut{Status: results.status(), Timestamp: now, Version: node.Version, Alerts: results.alerts(now)}
		if in.IncludeServices == nil || *in.IncludeServices {
			out.Services = node.services(results)
		}
		if in.IncludeMetrics == nil || *in.IncludeMetrics {
			if out.Metrics, err = node.metrics(ctx, results.process, QueueRequest{Limit: 1, Except: env.Task}); err != nil {
				return getSystemStatusOut{}, err
			}
		}
		if in.IncludeDependencies {
			out.Dependencies = results.dependencies()
		}
		return out, nil
	})
}

// probeResults are the results of all probes.
type probeResults struct {
	nats, log, firebase, github Part
	servers                     []Part
	process                     Process
}

func (n *Node) probe(ctx context.Context) probeResults {
	h := n.Health
	return probeResults{
		nats: h.NATS(ctx), log: h.JetStream(ctx), servers: h.Servers(ctx), firebase: h.Firebase(ctx), github: h.GitHub(ctx), process: h.Process(),
	}
}

// status returns the overall status by the rule of S3-122.
func (r probeResults) status() string {
	if r.nats.Status == Down || r.log.Status == Down {
		return critical
	}
	for _, p := range append(r.servers, r.firebase, r.github) {
		if p.Status == Down {
			return degraded
		}
	}
	return healthy
}

// alerts returns an alert for each component that is down, and for a paused node.
func (r probeResults) alerts(now time.Time) []alert {
	var all []alert
	add := func(level string, p Part) {
		if p.Status != Down {
			return
		}
		message := p.Name + " is down"
		if p.Why != "" {
			message += ": " + p.Why
		}
		all = append(all, alert{level, message, now})
	}
	add(critical, r.nats)
	add(critical, r.log)
	for _, p := range append(r.servers, r.firebase, r.github) {
		add("warning", p)
	}
	if r.process.Paused {
		all = append(all, alert{"info", "the node is paused and starts no calls", now})
	}
	return all
}

func (p Part) latency() *float64 {
	if p.Latency <= 0 {
		return nil
	}
	return new(millis(p.Latency))
}

func (r probeResults) dependencies() *dependencies {
	convert := func(p Part) dependency { return dependency{p.Name, p.Status, p.latency()} }
	d := &dependencies{NATS: convert(r.nats), JetStream: convert(r.log), Servers: []dependency{}}
	for _, p := range r.servers {
		d.Servers = append(d.Servers, convert(p))
	}
	return d
}

// services returns the status of the services outside of the node.
func (n *Node) services(results probeResults) *services {
	failed := 0
	for name, uses := range n.Usage.Tools() {
		if strings.HasPrefix(name, "firebase.") {
			failed += int(min(uses.Errors[fault.FirebaseError], math.MaxInt32))
		}
	}
	s := &services{
		Firebase: service{Status: results.firebase.Status, Latency: results.firebase.latency(), Errors: &failed},
		GitHub:   githubService{Status: results.github.Status, Latency: results.github.latency()},
	}
	if results.github.Limit != nil {
		if text, err := json.Marshal(results.github.Limit); err == nil {
			s.GitHub.RateLimit = text
		}
	}
	return s
}

// metrics returns the metrics of the node.
func (n *Node) metrics(ctx context.Context, p Process, r QueueRequest) (*metrics, error) {
	_, queue, err := n.Queue.Queue(ctx, r)
	if err != nil {
		return nil, err
	}
	active := 0
	registered, err := n.agents(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range registered {
		if a.Status != agents.Offline {
			active++
		}
	}
	var all Uses
	for _, u := range n.Usage.Tools() {
		all.Count, all.Successes, all.Took = all.Count+u.Count, all.Successes+u.Successes, all.Took+u.Took
		all.addErrors(u.Errors)
	}
	m := &metrics{
		ActiveAgents: &active, TasksInQueue: &queue.Total, SuccessRate: all.successRate(), Errors: all.errorCounts(), Uptime: new(int(p.Uptime.Seconds())),
		MemoryUsage: &p.Memory, CPUUsage: &p.CPU,
	}
	if all.Count > 0 {
		m.AvgResponseTime = new(millis(all.Took) / float64(all.Count))
	}
	return m, nil
}
