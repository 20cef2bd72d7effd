package web

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// conversionCost estimates the cost of converting a page to Markdown. The converter processes the content of each
// quotation or list again, and fills every cell that a span covers. So even a small page can be expensive.
type conversionCost struct {
	elements, text, cells int
}

// tooExpensive reports whether the conversion might take more than a few seconds; then the page is converted to plain
// text. Ordinary pages cost far less.
func tooExpensive(doc *html.Node) bool {
	var w conversionCost
	w.add(doc, 1)
	return w.elements > 60_000 || w.text > 8<<20 || w.cells > 20_000
}

// add adds the cost of the nodes below n; nesting is one more than the number of quotations and lists around it.
func (w *conversionCost) add(n *html.Node, nesting int) {
	for c := range n.ChildNodes() {
		if c.Type == html.TextNode {
			w.text += nesting * len(c.Data)
			continue
		}
		inner := nesting
		switch c.Data {
		case "blockquote", "ul", "ol":
			inner++
		case "td", "th":
			w.cells += span(c, "colspan") * span(c, "rowspan")
		}
		w.elements += inner
		w.add(c, inner)
	}
}

func span(n *html.Node, key string) int {
	for _, a := range n.Attr {
		if v, err := strconv.Atoi(a.Val); a.Key == key && err == nil && v > 0 {
			return v
		}
	}
	return 1
}

// plainText returns the text of a page with a blank line around each block.
func plainText(doc *html.Node) string {
	var b strings.Builder
	writeText(&b, doc)
	lines := strings.Split(b.String(), "\n")
	var out strings.Builder
	blank := true
	for _, line := range lines {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" && blank {
			continue
		}
		blank = line == ""
		out.WriteString(line + "\n")
	}
	return strings.TrimSpace(out.String())
}

// writeText writes the text of the nodes below n, with line breaks around blocks.
func writeText(b *strings.Builder, n *html.Node) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(strings.ReplaceAll(c.Data, "\n", " "))
		case c.Type == html.ElementNode && c.Data == "br":
			b.WriteByte('\n')
		case c.Type == html.ElementNode && isBlock(c.Data):
			b.WriteString("\n\n")
			writeText(b, c)
			b.WriteString("\n\n")
		case c.Type == html.ElementNode:
			writeText(b, c)
			b.WriteByte(' ')
		}
	}
}

// isBlock reports whether an HTML element is displayed as a block.
func isBlock(name string) bool {
	switch name {
	case "address", "article", "aside", "blockquote", "dd", "div", "dl", "dt", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
		"header", "hr", "li", "main", "ol", "p", "pre", "section", "table", "tr", "ul":
		return true
	}
	return false
}
