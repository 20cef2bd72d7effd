package screen

import (
	"fmt"
	"io"
	"strings"
)

// Frame is a block of lines at the bottom of a terminal that is redrawn in place. The last drawn block stays on the
// terminal.
type Frame struct {
	w     io.Writer
	size  func() (width, height int)
	drawn int
}

// NewFrame returns a frame on a terminal. size returns the current columns and rows of the terminal.
func NewFrame(w io.Writer, size func() (width, height int)) *Frame {
	return &Frame{w: w, size: size}
}

// Draw replaces the block. It clips long lines. If there are too many lines, it leaves out those at the top.
func (f *Frame) Draw(lines []string) error {
	width, height := f.size()
	if height > 1 && len(lines) > height-1 {
		hidden := len(lines) - height + 2
		lines = append([]string{fmt.Sprintf("… %s above", Plural(hidden, "line"))}, lines[hidden:]...)
	}
	return f.replace(lines, width)
}

// Last replaces the block by its final form, with all lines.
func (f *Frame) Last(lines []string) error {
	width, _ := f.size()
	return f.replace(lines, width)
}

func (f *Frame) replace(lines []string, width int) error {
	var b strings.Builder
	if f.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", f.drawn)
	}
	for _, line := range lines {
		b.WriteString(clipStyled(line, width) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	f.drawn = len(lines)
	_, err := io.WriteString(f.w, b.String())
	return err
}

// clipStyled is Clip for text that contains escape sequences of Style. They have no width.
func clipStyled(s string, width int) string {
	if width <= 0 {
		return s
	}
	var b strings.Builder
	shown, inside, styled := 0, false, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			inside, styled = true, true
		case inside:
			inside = r != 'm'
		case shown == width:
			return b.String() + reset(styled)
		default:
			shown++
		}
		b.WriteRune(r)
	}
	return b.String()
}

func reset(styled bool) string {
	if styled {
		return "\x1b[0m"
	}
	return ""
}

// Style colours text. If Color is false, it returns text unchanged.
type Style struct{ Color bool }

// Good marks a success.
func (s Style) Good(text string) string { return s.paint("32", text) }

// Bad marks a failure.
func (s Style) Bad(text string) string { return s.paint("31", text) }

// Warn marks a warning.
func (s Style) Warn(text string) string { return s.paint("33", text) }

// Active marks something that is running.
func (s Style) Active(text string) string { return s.paint("36", text) }

// Dim marks a detail.
func (s Style) Dim(text string) string { return s.paint("2", text) }

// Bold marks names.
func (s Style) Bold(text string) string { return s.paint("1", text) }

func (s Style) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
