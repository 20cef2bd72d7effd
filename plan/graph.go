package plan

import (
	"fmt"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Graph returns a drawing of the steps of a plan and their needs. format is "mermaid", "dot" or "text".
func Graph(p *Plan, format string) (string, error) {
	pr, err := p.Program()
	if err != nil {
		return "", err
	}
	var d graphWriter
	switch format {
	case "mermaid":
		d = &mermaid{}
	case "dot":
		d = &dot{}
	case "text":
		d = &text{}
	default:
		return "", fault.New(fault.ValidationError, "%s is none of mermaid, dot, text", quote(format)).WithField("format")
	}
	d.begin(p.Name)
	for _, section := range []struct {
		name  string
		nodes []*Node
	}{{sectionSteps, pr.steps}, {sectionVerify, pr.verify}, {sectionAlways, pr.always}} {
		if len(section.nodes) > 0 {
			d.group(section.name, section.name)
			drawNodes(d, section.nodes, "")
			d.end()
		}
	}
	return d.finish(), nil
}

// graphWriter writes one format. Node ids are unique within a graph.
type graphWriter interface {
	begin(name string)
	group(id, label string)
	node(id string, n *Node)
	edge(from, to string)
	end()
	finish() string
}

// drawNodes draws the nodes of one level; prefix makes the ids of inner levels unique.
func drawNodes(d graphWriter, nodes []*Node, prefix string) {
	for _, n := range nodes {
		id := prefix + n.ID
		d.node(id, n)
		if len(n.Children) > 0 {
			d.group(id+"__do", "for each "+n.As)
			drawNodes(d, n.Children, id+"__")
			d.end()
		}
	}
	for _, n := range nodes {
		for _, need := range n.Needs {
			d.edge(prefix+need, prefix+n.ID)
		}
	}
}

// describe describes a step in a few words.
func (n *Node) describe() string {
	switch n.Kind {
	case KindTool:
		return n.Tool
	case KindForEach:
		if n.Matrix != nil {
			names, _ := axes(n.Matrix)
			return strings.TrimSpace("matrix " + strings.Join(names, ", "))
		}
		if source, ok := n.ForEach.(string); ok {
			return "for_each " + source
		}
		raw, _ := encode(n.ForEach) // it was decoded from a file, so it can be encoded
		return "for_each " + shorten(string(raw))
	case KindSwitch:
		return "switch " + n.Switch
	case KindWait:
		return "wait"
	case KindRun:
		return strings.TrimSpace("run " + n.Run.Name)
	case KindSet:
		return "set " + strings.Join(sortedKeys(n.Step.Set), ", ")
	case KindApprove:
		return "approve"
	case KindAgent:
		return "agent " + n.Agent.Model
	default:
		return ""
	}
}

// indented builds a text of lines that are indented by group.
type indented struct {
	strings.Builder

	depth int
}

func (b *indented) line(format string, args ...any) {
	b.WriteString(strings.Repeat("  ", b.depth))
	fmt.Fprintf(&b.Builder, format, args...)
	b.WriteByte('\n')
}

type mermaid struct{ indented }

func (m *mermaid) begin(string) { m.line("flowchart TD"); m.depth++ }

func (m *mermaid) group(id, label string) {
	m.line("subgraph %s_group[\"%s\"]", id, mermaidText(label))
	m.depth++
}

func (m *mermaid) node(id string, n *Node) {
	m.line("%s_step[\"%s<br/>%s\"]", id, n.ID, mermaidText(n.describe()))
}
func (m *mermaid) edge(from, to string) { m.line("%s_step --> %s_step", from, to) }
func (m *mermaid) end()                 { m.depth--; m.line("end") }
func (m *mermaid) finish() string       { return m.String() }

// mermaidText escapes the characters that would end a label.
func mermaidText(s string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "\n", " ").Replace(s)
}

type dot struct{ indented }

func (g *dot) begin(name string) {
	g.line("digraph %q {", name)
	g.depth++
	g.line("node [shape=box];")
}

func (g *dot) group(id, label string) {
	g.line("subgraph %q {", "cluster_"+id)
	g.depth++
	g.line("label=%q;", label)
}

func (g *dot) node(id string, n *Node) { g.line("%q [label=%q];", id, n.ID+"\n"+n.describe()) }
func (g *dot) edge(from, to string)    { g.line("%q -> %q;", from, to) }
func (g *dot) end()                    { g.depth--; g.line("}") }
func (g *dot) finish() string          { g.end(); return g.String() }

type text struct{ indented }

func (t *text) begin(name string) {
	if name != "" {
		t.line("%s", name)
	}
}
func (t *text) group(_, label string) { t.line("%s:", label); t.depth++ }

func (t *text) node(_ string, n *Node) {
	line := n.ID + "  " + n.describe()
	if len(n.Needs) > 0 {
		line += "  <- " + strings.Join(n.Needs, ", ")
	}
	t.line("%s", strings.ReplaceAll(line, "\n", " "))
}
func (t *text) edge(string, string) {}
func (t *text) end()                { t.depth-- }
func (t *text) finish() string      { return t.String() }
