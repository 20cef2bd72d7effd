// Package otlp writes spans in the JSON form of the OpenTelemetry protocol (OTLP), to files and to collectors.
package otlp

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
)

// scope is the name of the instrumentation scope of all spans.
const scope = "github.com/orch-dev/orch"

// The messages of the protocol, as far as spans need them. Numbers of 64 bits are strings, ids are hexadecimal.
type (
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope instrumentation `json:"scope"`
		Spans []span          `json:"spans"`
	}
	instrumentation struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	span struct {
		TraceID      string      `json:"traceId"`
		SpanID       string      `json:"spanId"`
		TraceState   string      `json:"traceState,omitempty"`
		ParentSpanID string      `json:"parentSpanId,omitempty"`
		Name         string      `json:"name"`
		Kind         traces.Kind `json:"kind"`
		Start        string      `json:"startTimeUnixNano"`
		End          string      `json:"endTimeUnixNano"`
		Attributes   []attribute `json:"attributes,omitempty"`
		Events       []event     `json:"events,omitempty"`
		Dropped      int         `json:"droppedEventsCount,omitempty"`
		Links        []link      `json:"links,omitempty"`
		Status       *status     `json:"status,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
		Int    string  `json:"intValue,omitempty"`
	}
	event struct {
		Time       string      `json:"timeUnixNano"`
		Name       string      `json:"name"`
		Attributes []attribute `json:"attributes,omitempty"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
)

// failed is the code of the status of a span that has failed.
const failed = 2

// SpansAtOnce is the number of spans from which a request gets no further ones.
const SpansAtOnce = 1000

// Encode returns the request that exports spans, without a newline: an ExportTraceServiceRequest in JSON.
func (s Source) Encode(list []traces.Span) ([]byte, error) {
	groups, err := s.ResourceSpans(list)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"resourceSpans":`), groups, []byte("}")), nil
}

// ResourceSpans returns the value of resourceSpans in such a request.
func (s Source) ResourceSpans(list []traces.Span) (json.RawMessage, error) {
	spans := make([]span, len(list))
	for i, one := range list {
		spans[i] = encode(one)
	}
	data, err := json.Marshal([]resourceSpans{{
		Resource:   resource{attributes(s.attributes())},
		ScopeSpans: []scopeSpans{{instrumentation{scope, s.Version}, spans}},
	}})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the spans cannot be encoded")
	}
	return data, nil
}

func encode(s traces.Span) span {
	out := span{
		TraceID: s.Trace.String(), SpanID: s.ID.String(), TraceState: s.State, ParentSpanID: s.Parent.String(), Name: s.Name, Kind: s.Kind,
		Start: nanos(s.Start), End: nanos(s.End), Attributes: attributes(s.Attributes), Dropped: s.Dropped,
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, event{nanos(e.At), e.Name, attributes(e.Attributes)})
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, link{s.Trace.String(), l.String()})
	}
	if s.Failed {
		out.Status = &status{failed, s.Message}
	}
	return out
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func attributes(list []traces.Attribute) []attribute {
	var out []attribute
	for _, a := range list {
		switch v := a.Value.(type) {
		case string:
			out = append(out, attribute{a.Key, value{String: &v}})
		case bool:
			out = append(out, attribute{a.Key, value{Bool: &v}})
		case int64:
			out = append(out, attribute{a.Key, value{Int: strconv.FormatInt(v, 10)}})
		default: // there are no others
		}
	}
	return out
}
