package otlp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/traces/otlp"
)

func TestEncode(t *testing.T) {
	t.Parallel()
	data, err := otlp.Source{Version: "1.2.3"}.Encode([]traces.Span{{
		Trace: traces.TraceID{0xab}, State: "rojo=1", ID: traces.SpanID{1}, Parent: traces.SpanID{2}, Name: "push", Kind: traces.Client, Start: time.Unix(1, 5), End: time.Unix(2, 0),
		Attributes: []traces.Attribute{{Key: "s", Value: "a"}, {Key: "n", Value: int64(1 << 60)}, {Key: "b", Value: true}},
		Events:     []traces.Event{{At: time.Unix(1, 6), Name: "paused"}}, Dropped: 7, Links: []traces.SpanID{{3}}, Failed: true, Message: "no",
	}})
	require.NoError(t, err)
	assert.JSONEq(t, `{"resourceSpans": [{
		"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "orch"}}, {"key": "service.version", "value": {"stringValue": "1.2.3"}}]},
		"scopeSpans": [{"scope": {"name": "github.com/orch-dev/orch", "version": "1.2.3"}, "spans": [{
			"traceId": "ab000000000000000000000000000000", "spanId": "0100000000000000", "traceState": "rojo=1", "parentSpanId": "0200000000000000",
			"name": "push", "kind": 3, "startTimeUnixNano": "1000000005", "endTimeUnixNano": "2000000000",
			"attributes": [{"key": "s", "value": {"stringValue": "a"}}, {"key": "n", "value": {"intValue": "1152921504606846976"}}, {"key": "b", "value": {"boolValue": true}}],
			"events": [{"timeUnixNano": "1000000006", "name": "paused"}], "droppedEventsCount": 7,
			"links": [{"traceId": "ab000000000000000000000000000000", "spanId": "0300000000000000"}],
			"status": {"code": 2, "message": "no"}}]}]}]}`, string(data))
}

func TestSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		codes        []int
		want         fault.Code
		requests     int
	}{
		{"accepted", "{}", []int{200}, "", 1},
		{"accepted with an empty answer", "", []int{200}, "", 1},
		{"accepted with fields of the future", `{"partialSuccess": null, "more": []}`, []int{200}, "", 1},
		{"a page", "<!doctype html><title>Sign in</title>", []int{200}, fault.NetworkError, 1},
		{"a text", "thanks", []int{200}, fault.NetworkError, 1},
		{"null", "null", []int{200}, fault.NetworkError, 1},
		{"a list", "[]", []int{200}, fault.NetworkError, 1},
		{"another type", `{"partialSuccess": "ok"}`, []int{200}, fault.NetworkError, 1},
		{"two answers", "{}{}", []int{200}, fault.NetworkError, 1},
		{"cut off", "{", []int{200}, fault.NetworkError, 1},
		{"some rejected", `{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}`, []int{200}, fault.NetworkError, 1},
		{"none rejected", `{"partialSuccess": {"rejectedSpans": 0, "errorMessage": "slow down"}}`, []int{200}, "", 1},
		{"overloaded at first", "", []int{503, 200}, "", 2},
		{"kept by a gateway", "", []int{202}, "", 1},
		{"without content", "", []int{204}, "", 1},
		{"refused", "", []int{401}, fault.NetworkError, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = append(got, r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization")+" "+string(body))
				w.WriteHeader(c.codes[len(got)-1])
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			address, err := otlp.TracesURL(server.URL)
			require.NoError(t, err)
			header, err := otlp.ParseHeaders("authorization=Bearer%20x")
			require.NoError(t, err)
			err = (&otlp.Collector{URL: address, Header: header, Client: server.Client()}).Send(t.Context(), []byte("{}"))
			if c.want == "" {
				require.NoError(t, err)
			} else {
				assert.Equal(t, c.want, fault.From(err).Code)
			}
			require.Len(t, got, c.requests)
			assert.Equal(t, "/v1/traces application/json Bearer x {}", got[0])
		})
	}
}

// An answer that a setting can mend comes with the setting.
func TestHints(t *testing.T) {
	t.Parallel()
	for code, hint := range map[int]string{401: "OTEL_EXPORTER_OTLP_HEADERS", 403: "authorization=Bearer%20TOKEN", 302: "4318", 404: "/v1/traces", 400: "", 500: ""} {
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		collector, err := otlp.NewCollector(site.URL, http.Header{})
		require.NoError(t, err)
		err = collector.Send(t.Context(), nil)
		site.Close()
		collector.Client.CloseIdleConnections()
		require.Error(t, err)
		assert.Equal(t, hint == "", fault.From(err).Hint == "", code)
		assert.Contains(t, fault.From(err).Hint, hint)
	}
}

// What a collector says of spans that it rejects may repeat the request: the header is not shown, and the text is short.
func TestAnswersShowNoHeader(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.Header.Get("Authorization") + strings.Repeat("ä", 1000)
		_, _ = io.WriteString(w, `{"partialSuccess": {"rejectedSpans": 1, "errorMessage": "`+said+`"}}`)
	}))
	defer site.Close()
	collector, err := otlp.NewCollector(site.URL, http.Header{"Authorization": {"Bearer s3cret"}})
	require.NoError(t, err)
	defer collector.Client.CloseIdleConnections()
	err = collector.Send(t.Context(), nil)
	require.ErrorContains(t, err, "rejected 1 spans: ***ä")
	assert.NotContains(t, err.Error(), "s3cret")
	assert.Less(t, len(err.Error()), 700)
}

// A collector that is overloaded gets the same request once if the caller tries again by itself.
func TestOnce(t *testing.T) {
	t.Parallel()
	requests := 0
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { requests++; w.WriteHeader(http.StatusServiceUnavailable) }))
	collector, err := otlp.NewCollector(site.URL, http.Header{})
	require.NoError(t, err)
	collector.Once = true
	err = collector.Send(t.Context(), nil)
	site.Close()
	collector.Client.CloseIdleConnections()
	assert.True(t, fault.Has(err, fault.Unavailable), "%v", err)
	assert.Equal(t, 1, requests)
}

func TestWrongHeaders(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", "=b", "bad key=x", "a=%00", "a=b%0Ac", "ä=x", "a=%7F"} {
		_, err := otlp.ParseHeaders(text)
		assert.Equal(t, otlp.HeadersVariable, fault.From(err).Field, text)
	}
	header, err := otlp.ParseHeaders(" x-key = a%20b , , Other=%C3%A4")
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-Key": {"a b"}, "Other": {"ä"}}, header)
}

func TestSendToNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	err := (&otlp.Collector{URL: server.URL, Header: http.Header{}, Client: http.DefaultClient}).Send(t.Context(), nil)
	assert.Equal(t, fault.Unavailable, fault.From(err).Code)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/traces", "https://a/": "https://a/v1/traces", "https://a/api/v2/otlp": "https://a/api/v2/otlp",
		"ftp://a": "", "127.0.0.1:4318": "", "http://": "", "http://a:b": "",
	} {
		got, err := otlp.TracesURL(base)
		assert.Equal(t, want, got, base)
		assert.Equal(t, want == "", err != nil, base)
	}
}

// A header leaves the machine with encryption alone.
func TestHeadersAreEncrypted(t *testing.T) {
	t.Parallel()
	token := http.Header{"Authorization": {"Bearer s3cret"}}
	for _, c := range []struct {
		to     string
		header http.Header
		ok     bool
	}{
		{"http://collector.example.com:4318", token, false},
		{"HTTP://collector.example.com:4318/v1/traces", token, false},
		{"http://127.0.0.1.example.com", token, false},
		{"http://collector.example.com:4318", http.Header{}, true},
		{"https://collector.example.com", token, true},
		{"http://127.0.0.1:4318", token, true},
		{"http://[::1]:4318", token, true},
		{"http://localhost:4318", token, true},
	} {
		_, err := otlp.NewCollector(c.to, c.header)
		if c.ok {
			require.NoError(t, err, c.to)
			continue
		}
		require.Error(t, err, c.to)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
		assert.Contains(t, err.Error(), "would send OTEL_EXPORTER_OTLP_HEADERS without encryption")
		assert.NotContains(t, err.Error(), "s3cret")
	}
}

func FuzzParseHeaders(f *testing.F) {
	for _, seed := range []string{"", "a=b", "a=b,c=d%2C", "a", "=b", "a=%", "a=b\r\nc: d", ", ,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		header, err := otlp.ParseHeaders(text)
		if err != nil {
			assert.Equal(t, fault.InvalidFormat, fault.From(err).Code)
			return
		}
		for key, values := range header {
			assert.NotContains(t, key+values[0], "\n")
		}
	})
}
