package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// planCommands are the commands about plans.
type planCommands struct {
	*env

	tools   *toolset
	plans   *planLoader
	submits *submitCommands
}

func newPlan(c *planCommands) *cobra.Command {
	cmd := &cobra.Command{Use: "plan", Short: "Write, check and draw plans", Example: "  orch plan validate plan.yaml"}
	asGroup(cmd)
	cmd.AddCommand(newPlanValidate(c), newPlanGraph(c), newPlanSchema(c), newPlanNew(c), newPlanRun(c), newPlanTest(c))
	return cmd
}

func newPlanValidate(c *planCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "validate PLAN.yaml...",
		Short:   "Check plans and say every problem with its place",
		Example: "  orch plan validate plan.yaml",
		Args:    takes("PLAN.yaml..."),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.validate(cmd.Context(), args) },
	}
}

// validation is the output of `orch plan validate` for one valid plan.
type validation struct {
	File  string `json:"file"`
	Name  string `json:"name"`
	Steps int    `json:"steps"`
	// Warnings are parts of the plan that are valid but probably not intended.
	Warnings []plan.Problem `json:"warnings,omitempty"`
}

func (c *planCommands) validate(ctx context.Context, files []string) error {
	good := []validation{}
	var problems plan.Problems
	for _, file := range files {
		var warnings []plan.Problem
		p, err := c.plans.parsePlan(ctx, file, func(w plan.Problem) { warnings = append(warnings, w) })
		if found, ok := errors.AsType[plan.Problems](err); ok {
			problems = append(problems, found...)
			continue
		}
		if err != nil {
			return err
		}
		good = append(good, validation{file, p.Name, len(p.Steps) + len(p.Verify) + len(p.Always), warnings})
	}
	if len(problems) > 0 {
		return fault.Wrap(fault.InvalidPlan, problems, "the plan has "+screen.Plural(len(problems), "problem"))
	}
	return c.emit(view{data: good, rows: rowsOf(good), names: files, text: func(w io.Writer) error {
		var lines []string
		for _, v := range good {
			for _, w := range v.Warnings {
				lines = append(lines, screen.Escape("warning: "+w.String()))
			}
			lines = append(lines, screen.Escape(v.File)+": ok, "+screen.Plural(v.Steps, "step"))
		}
		return writeLines(w, lines)
	}})
}

func newPlanGraph(c *planCommands) *cobra.Command {
	var format string
	formats := []string{"text", "mermaid", "dot"}
	cmd := &cobra.Command{
		Use:     "graph PLAN.yaml",
		Short:   "Draw the steps of a plan and what they need",
		Example: "  orch plan graph plan.yaml --format dot | dot -Tsvg > plan.svg",
		Args:    takes("PLAN.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("--format", format, formats); err != nil {
				return err
			}
			p, err := c.plans.loadPlan(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			text, err := plan.Graph(p, format)
			if err != nil {
				return err
			}
			return writeLines(c.out, []string{strings.TrimRight(screen.EscapeLines(text), "\n")})
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "form of the drawing"+choices(formats))
	completeFlag(cmd, "format", completeWords(formats))
	return cmd
}

func newPlanSchema(c *planCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of plans, for editors",
		Example: "  orch plan schema > plan.schema.json",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			return writeLines(c.out, []string{strings.TrimRight(string(plan.Schema()), "\n")})
		},
	}
}

func newPlanNew(c *planCommands) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "new [FILE]",
		Short:   "Write a commented plan to start from",
		Example: "  orch plan new plan.yaml --name nightly",
		Args:    takes("[FILE]"),
		RunE:    func(_ *cobra.Command, args []string) error { return c.newPlanFile(args, name) },
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the plan")
	return cmd
}

// newPlanFile writes the skeleton of a plan to stdout, or to a new file. It fails if the file exists.
func (c *planCommands) newPlanFile(args []string, name string) error {
	text := plan.Skeleton(name)
	if len(args) == 0 || args[0] == stdinName {
		_, err := c.out.Write(text)
		return err
	}
	f, err := os.OpenFile(c.path(args[0]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a plan is not secret
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "%s exists already", args[0]).WithHint("choose another name, or remove it first")
	}
	if err != nil {
		return fault.New(fault.Forbidden, "cannot write %s: %w", args[0], err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fault.New(fault.Internal, "cannot write %s: %w", args[0], err)
	}
	c.note("wrote %s; check it with: orch plan validate %s", args[0], args[0])
	return nil
}

func newPlanRun(c *planCommands) *cobra.Command {
	var o submitOptions
	var dry bool
	cmd := &cobra.Command{
		Use:     "run PLAN.yaml",
		Short:   "Submit a plan, or with --dry-run say what it would run",
		Example: "  orch plan run plan.yaml -i repo=. --dry-run",
		Args:    takes("PLAN.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args
			return c.runPlan(cmd.Context(), o, dry)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&dry, "dry-run", false, "check everything and print what would run; call nothing")
	f.StringArrayVarP(&o.inputs, "input", "i", nil, "input as name=value or name:=json (repeatable)")
	f.StringVarP(&o.inputsFile, "inputs-file", "I", "", "JSON object of inputs")
	addWait(cmd, &o.waitOptions)
	addSettings(f, true, true)
	return cmd
}

func (c *planCommands) runPlan(ctx context.Context, o submitOptions, dry bool) error {
	if !dry {
		return c.submits.submit(ctx, o)
	}
	p, err := c.plans.loadPlan(ctx, o.args[0])
	if err != nil {
		return err
	}
	inputs, err := c.plans.planInputs(p, o.inputs, o.inputsFile)
	if err != nil {
		return err
	}
	program, err := p.Program()
	if err != nil {
		return err
	}
	preview := preview{Name: p.Name, Inputs: inputs}
	preview.add("steps", program.Steps())
	preview.add("verify", program.Verify())
	preview.add("always", program.Always())
	return c.emit(view{data: preview, names: []string{p.Name}, text: func(w io.Writer) error {
		return writeLines(w, preview.lines())
	}})
}

// preview lists the steps that a plan would run.
type preview struct {
	Name   string          `json:"name"`
	Inputs json.RawMessage `json:"inputs"`
	Steps  []previewStep   `json:"steps"`
}

// previewStep is one step of a preview.
type previewStep struct {
	Section string      `json:"section"`
	ID      string      `json:"id"`
	Kind    plan.Kind   `json:"kind"`
	Tool    string      `json:"tool,omitempty"`
	Effect  plan.Effect `json:"effect,omitempty"`
	Needs   []string    `json:"needs,omitempty"`
	If      string      `json:"if,omitempty"`
	// Case is the switch case that the step belongs to, as SWITCH:CASE.
	Case string        `json:"case,omitempty"`
	Do   []previewStep `json:"do,omitempty"`
}

func (p *preview) add(section string, nodes []*plan.Node) {
	p.Steps = append(p.Steps, previewOf(section, nodes)...)
}

func previewOf(section string, nodes []*plan.Node) []previewStep {
	var steps []previewStep
	for _, n := range nodes {
		branch, name := n.Branch()
		if branch != "" {
			branch += ":" + name
		}
		steps = append(steps, previewStep{
			Section: section, ID: n.ID, Kind: n.Kind, Tool: n.Tool, Effect: n.Effect, Needs: n.Needs, If: n.Step.If, Case: branch,
			Do: previewOf(section, n.Children),
		})
	}
	return steps
}

func (p *preview) lines() []string {
	lines := []string{screen.Escape(p.Name) + " would run:"}
	lines = append(lines, previewLines(p.Steps, "  ")...)
	return append(lines, "nothing was called; run it with: orch submit")
}

func previewLines(steps []previewStep, margin string) []string {
	var lines []string
	for _, s := range steps {
		what := string(s.Kind)
		if s.Tool != "" {
			what = strings.TrimSpace(s.Tool + " " + string(s.Effect))
		}
		text := fmt.Sprintf("%s%-16s %s", margin, s.ID, what)
		if len(s.Needs) > 0 {
			text += "  after " + strings.Join(s.Needs, ", ")
		}
		if s.Case != "" {
			text += "  case " + s.Case
		}
		if s.If != "" {
			text += "  if " + s.If
		}
		if s.Section != "steps" {
			text += "  (" + s.Section + ")"
		}
		lines = append(append(lines, screen.Escape(text)), previewLines(s.Do, margin+"  ")...)
	}
	return lines
}
