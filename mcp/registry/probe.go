package registry

import (
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Test implements MCPRegistry. It does not affect the connection that calls use.
func (r *Registry) Test(ctx context.Context, name string) (MCPHealthReport, error) {
	if err := r.checkUsable(); err != nil {
		return MCPHealthReport{}, err
	}
	s, ok := r.server(name)
	if !ok {
		return MCPHealthReport{}, notFound(name)
	}
	s.mu.Lock()
	def := s.def
	s.mu.Unlock()
	report := MCPHealthReport{Tool: name, Status: Offline, Timestamp: r.now(), Capabilities: []string{}, Tools: []string{}}
	opened, err := r.dial(ctx, def, dialOptions{onStage: report.addStage, onStderr: func(text string) { report.Stderr = text }})
	if err != nil {
		report.LastError = fault.From(err).Message
		return report, err
	}
	defer opened.close()
	report.fill(def, opened)
	bounded, cancel := context.WithTimeout(ctx, r.bound)
	defer cancel()
	begin := time.Now()
	err = opened.conn.ping(bounded)
	report.addStage("ping", time.Since(begin), err)
	report.Stderr = opened.conn.link.stderrTail()
	if err != nil {
		err = handshakeFailed(name, "it does not answer a ping: "+opened.conceal(err.Error()))
		report.Status, report.LastError = Degraded, fault.From(err).Message
		return report, err
	}
	return report, nil
}

// addStage adds a stage. It omits the text of err, which may contain secrets; LastError has the text without them.
func (m *MCPHealthReport) addStage(name string, took time.Duration, err error) {
	stage := Stage{Name: name, Duration: took}
	if err != nil {
		stage.Error = "failed"
	}
	m.Stages = append(m.Stages, stage)
}

// fill adds the properties of an opened session.
func (m *MCPHealthReport) fill(def definition, opened *session) {
	m.Status, m.Handshake, m.HandshakeLatency = Ready, true, opened.latency
	m.ProtocolVersion, m.Server = opened.conn.session.InitializeResult().ProtocolVersion, opened.conceal(opened.conn.serverOf())
	for _, tool := range opened.tools {
		m.Tools = append(m.Tools, opened.conceal(tool.Name))
	}
	m.Missing, m.LastError = opened.missing, opened.missingText()
	lacking := map[string]bool{}
	for _, capability := range opened.missing {
		lacking[capability] = true
		m.Status = Degraded
	}
	for _, capability := range def.Capabilities {
		if !lacking[capability] {
			m.Capabilities = append(m.Capabilities, capability)
		}
	}
}
