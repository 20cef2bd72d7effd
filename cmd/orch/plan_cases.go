package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/plantest"
)

// This file implements `orch plan test`.

func newPlanTest(c *planCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "test FILE.test.yaml...",
		Short:   "Run the tests of plans, without calling anything",
		Example: "  orch plan test examples/tests/rollout.test.yaml",
		Args:    takes("FILE.test.yaml..."),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.testPlans(cmd.Context(), args) },
	}
}

// testedCase is the result of one case of `orch plan test`.
type testedCase struct {
	File string `json:"file"`
	plantest.Outcome
}

func (c *planCommands) testPlans(ctx context.Context, files []string) error {
	cases := []testedCase{}
	began := time.Now()
	for _, file := range files {
		outcomes, err := c.testPlan(ctx, file)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			cases = append(cases, testedCase{file, o})
		}
	}
	failed := 0
	var names []string
	for _, tested := range cases {
		if !tested.OK {
			failed++
			names = append(names, tested.Name)
		}
	}
	summary := fmt.Sprintf("%s, %d failed, %s", screen.Plural(len(cases), "case"), failed, time.Since(began).Round(time.Millisecond))
	err := c.emit(view{data: cases, rows: rowsOf(cases), names: names, text: func(w io.Writer) error {
		return writeLines(w, append(testedLines(cases), summary))
	}})
	if err == nil && failed > 0 {
		return &exitError{exit: exitFailed}
	}
	return err
}

// testPlan runs the cases of one file.
func (c *planCommands) testPlan(ctx context.Context, file string) ([]plantest.Outcome, error) {
	src, err := c.read(file, plantest.MaxSource)
	if err != nil {
		return nil, err
	}
	f, err := plantest.Read(file, src)
	if err != nil {
		return nil, err
	}
	name := f.Plan
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(file), name)
	}
	p, err := c.plans.loadPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	catalogue, err := c.tools.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	var all []plantest.Outcome
	for _, example := range f.Cases {
		o, err := plantest.Run(ctx, f, example, p, catalogue)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// testedLines shows the result of each case, and the expectations of failed cases.
func testedLines(cases []testedCase) []string {
	var lines []string
	for _, c := range cases {
		verdict := "ok  "
		if !c.OK {
			verdict = "FAIL"
		}
		lines = append(lines, screen.Escape(verdict+" "+c.File+": "+c.Name))
		for _, d := range c.Differences {
			lines = append(lines, screen.Escape("       "+d.String()))
		}
	}
	return lines
}
