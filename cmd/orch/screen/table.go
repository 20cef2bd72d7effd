package screen

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a table of text. The zero value is an empty table.
type Table struct{ rows [][]string }

// Row adds a row. Cells are escaped.
func (t *Table) Row(cells ...string) {
	safe := make([]string, len(cells))
	for i, c := range cells {
		safe[i] = Escape(c)
	}
	t.rows = append(t.rows, safe)
}

// Write writes the table with aligned columns, separated by two spaces. It clips lines to width characters; 0 means no
// limit.
func (t *Table) Write(w io.Writer, width int) error {
	widths := t.widths()
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteString(Clip(strings.TrimRight(line.String(), " "), width) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}
