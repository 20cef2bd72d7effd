package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/evals"
)

// show writes a report. It returns an error with the exit code 9 if a run waits for a person, and 7 if a case fails.
func (e *evaluation) show(r evals.Report) error {
	names := make([]string, 0, len(r.Runs))
	waits := false
	for _, o := range r.Runs {
		names = append(names, string(o.Task))
		waits = waits || o.Waits
	}
	err := e.emit(view{data: r, rows: rowsOf(r.Runs), names: names, text: func(w io.Writer) error { return e.writeReport(w, r) }})
	switch {
	case err != nil || r.OK:
		return err
	case waits:
		return &exitError{exit: exitApproval}
	default:
		return &exitError{exit: exitFailed}
	}
}

// writeReport writes a table of cases and variants, the comparison of the variants, and what has failed.
func (e *evaluation) writeReport(w io.Writer, r evals.Report) error {
	var cases, variants screen.Table
	cases.Row("case", "variant", "passed", "cost", "tokens", "turns", "time")
	for _, c := range r.Cases {
		name := c.Name
		for _, cell := range c.Cells {
			cases.Row(append([]string{name, cell.Variant, passedText(cell)}, usedColumns(cell.Tally)...)...)
			name = ""
		}
	}
	variants.Row("variant", "passed", "cost", "tokens", "turns", "time")
	for _, v := range r.Variants {
		variants.Row(variantRow(v)...)
	}
	if err := cases.Write(w, e.width()); err != nil {
		return err
	}
	if err := writeLines(w, []string{""}); err != nil {
		return err
	}
	if err := variants.Write(w, e.width()); err != nil {
		return err
	}
	return writeLines(w, append(append(movedLines(r), failedLines(r)...), "", "runs: orch list --label "+labelEval+"="+r.Run))
}

// passedText shows whether a case passes, and how many of its runs.
func passedText(c evals.Cell) string {
	text := "ok"
	if !c.OK {
		text = "FAIL"
	}
	if c.Runs > 1 {
		text += fmt.Sprintf(" %d/%d", c.Passed, c.Runs)
	}
	return text
}

// usedColumns shows what runs have cost, and how much they use in the mean.
func usedColumns(t evals.Tally) []string {
	return []string{fmt.Sprintf("$%.4f", t.USD), screen.Number(int(t.Tokens)), mean(t.Turns), screen.Duration(t.Took)}
}

// mean formats a mean with at most one digit after the point.
func mean(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") }

// variantRow sums up a variant, with its change from the baseline.
func variantRow(v evals.VariantReport) []string {
	row := append([]string{v.Name, fmt.Sprintf("%d of %d", v.Passed, v.Runs)}, usedColumns(v.Tally)...)
	if v.Change == nil {
		return row
	}
	if points := v.Change.Rate * 100; points != 0 {
		row[1] += fmt.Sprintf(" (%+.0f points)", points)
	}
	for i, ratio := range []*float64{v.Change.USD, v.Change.Tokens, v.Change.Turns, v.Change.Took} {
		if ratio != nil && *ratio != 1 {
			row[i+2] += fmt.Sprintf(" (%+.0f%%)", (*ratio-1)*100)
		}
	}
	return row
}

// failedLines lists the assertions that do not hold, by run.
func failedLines(r evals.Report) []string {
	var lines []string
	for _, o := range r.Runs {
		if o.OK {
			continue
		}
		head := o.Case + ", " + o.Variant
		if o.Nr > 1 {
			head += fmt.Sprintf(", run %d", o.Nr)
		}
		lines = append(lines, "", screen.Escape(strings.TrimSpace(head+"  "+string(o.Task))))
		for _, f := range o.Failed {
			lines = append(lines, "  "+screen.Escape(f.Check+": "+f.Why))
		}
	}
	return lines
}

// movedLines lists the cases that pass more or less often than with the baseline.
func movedLines(r evals.Report) []string {
	var lines []string
	for _, v := range r.Variants {
		for _, moved := range []struct {
			how   string
			cases []string
		}{{"worse", v.Worse}, {"better", v.Better}} {
			if len(moved.cases) > 0 {
				lines = append(lines, screen.Escape(fmt.Sprintf("%s is %s than %s: %s", v.Name, moved.how, r.Variants[0].Name, strings.Join(moved.cases, ", "))))
			}
		}
	}
	return lines
}
