package evals

import "time"

// Report compares the outcomes of a set.
type Report struct {
	// Run names the runs of one comparison.
	Run      string          `json:"run"`
	OK       bool            `json:"ok"`
	Variants []VariantReport `json:"variants"`
	Cases    []CaseReport    `json:"cases"`
	Runs     []Outcome       `json:"runs"`
}

// VariantReport sums up the runs of a variant. Its means are those of the runs that have begun.
type VariantReport struct {
	Name string `json:"name"`
	Tally
	// Change is the change from the baseline; nil for the baseline.
	Change *Change `json:"change,omitempty"`
	// Better and Worse are the cases of which more and fewer runs pass than of the baseline.
	Better []string `json:"better,omitempty"`
	Worse  []string `json:"worse,omitempty"`
}

// Change is the change from the baseline. Rate is a difference, the others are ratios: 0.5 is half as much. A ratio is nil if the
// baseline has used nothing.
type Change struct {
	Rate   float64  `json:"rate"`
	USD    *float64 `json:"usd,omitempty"`
	Tokens *float64 `json:"tokens,omitempty"`
	Turns  *float64 `json:"turns,omitempty"`
	Took   *float64 `json:"duration,omitempty"`
}

// CaseReport is a row of the comparison: one cell for each variant, in their order.
type CaseReport struct {
	Name  string `json:"name"`
	Cells []Cell `json:"cells"`
}

// Cell is a case with a variant. OK is set if enough of its runs pass.
type Cell struct {
	Variant string `json:"variant"`
	OK      bool   `json:"ok"`
	Tally
}

// Tally sums up runs. USD is the cost of all of them, the rest are means.
type Tally struct {
	Runs   int           `json:"runs"`
	Passed int           `json:"passed"`
	Rate   float64       `json:"rate"`
	USD    float64       `json:"usd"`
	Tokens float64       `json:"tokens"`
	Turns  float64       `json:"turns"`
	Took   time.Duration `json:"duration"`
}

// tally sums up outcomes.
func tally(outcomes []Outcome) (t Tally) {
	began := 0
	for _, o := range outcomes {
		t.Runs++
		if o.OK {
			t.Passed++
		}
		if o.NotRun != "" {
			continue
		}
		began++
		t.USD, t.Tokens, t.Turns, t.Took = t.USD+o.USD, t.Tokens+float64(o.Tokens), t.Turns+float64(o.Turns), t.Took+o.Took
	}
	if t.Runs > 0 {
		t.Rate = float64(t.Passed) / float64(t.Runs)
	}
	if began > 0 {
		t.Tokens, t.Turns, t.Took = t.Tokens/float64(began), t.Turns/float64(began), t.Took/time.Duration(began)
	}
	return t
}

// Report compares outcomes, which are in the order of Runs.
func (s *Set) Report(run string, outcomes []Outcome) Report {
	r := Report{Run: run, OK: true, Runs: outcomes}
	cells, columns := map[[2]string][]Outcome{}, map[string][]Outcome{}
	for _, o := range outcomes {
		key := [2]string{o.Case, o.Variant}
		cells[key], columns[o.Variant] = append(cells[key], o), append(columns[o.Variant], o)
	}
	for _, c := range s.Cases {
		row := CaseReport{Name: c.Name}
		for _, v := range s.Variants {
			cell := Cell{Variant: v.Name, Tally: tally(cells[[2]string{c.Name, v.Name}])}
			cell.OK = cell.Runs > 0 && cell.Rate >= s.MinRate
			r.OK = r.OK && cell.OK
			row.Cells = append(row.Cells, cell)
		}
		r.Cases = append(r.Cases, row)
	}
	for i, v := range s.Variants {
		r.Variants = append(r.Variants, r.variant(i, v.Name, tally(columns[v.Name])))
	}
	return r
}

// variant sums up a variant and compares it with the first one.
func (r *Report) variant(i int, name string, t Tally) VariantReport {
	v := VariantReport{Name: name, Tally: t}
	if i == 0 {
		return v
	}
	base := r.Variants[0].Tally
	each := func(t Tally) float64 { return t.USD / float64(max(t.Runs, 1)) }
	v.Change = &Change{
		Rate: t.Rate - base.Rate, USD: ratio(each(t), each(base)), Tokens: ratio(t.Tokens, base.Tokens), Turns: ratio(t.Turns, base.Turns),
		Took: ratio(float64(t.Took), float64(base.Took)),
	}
	for _, row := range r.Cases {
		switch first, cell := row.Cells[0], row.Cells[i]; {
		case cell.Rate > first.Rate:
			v.Better = append(v.Better, row.Name)
		case cell.Rate < first.Rate:
			v.Worse = append(v.Worse, row.Name)
		}
	}
	return v
}

// ratio returns a / b; nil if b is 0.
func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	return new(a / b)
}
