package web

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

// pageText returns the text of a page in UTF-8: HTML as Markdown, other text unchanged. It returns INVALID_FORMAT for
// other content types.
func pageText(res *netguard.Response) (string, error) {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || kind == "" {
		kind, _, _ = strings.Cut(http.DetectContentType(res.Body), ";")
	}
	if !isText(kind) {
		return "", fault.New(fault.InvalidFormat, "%s sent %.80q, which is not a text format", netguard.Endpoint(res.URL), kind).
			WithReason("CONTENT_TYPE")
	}
	text := decode(res.Body, res.Header.Get("Content-Type"))
	if kind == "text/html" || kind == "application/xhtml+xml" {
		return markdown(text, res.URL)
	}
	return text, nil
}

func isText(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/xhtml+xml", "application/javascript",
		"application/yaml", "application/x-ndjson", "application/toml":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}

// decode detects the encoding as browsers do: by a byte order mark, the header, the page itself.
func decode(body []byte, contentType string) string {
	encoding, _, _ := charset.DetermineEncoding(body, contentType)
	text, err := encoding.NewDecoder().Bytes(body)
	if err != nil {
		text = body
	}
	return strings.ToValidUTF8(strings.TrimPrefix(string(text), "\uFEFF"), "\uFFFD")
}

// markdown converts a page to Markdown, or to plain text if that would take too long. Links become absolute.
func markdown(page string, from *url.URL) (string, error) {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return "", fault.Wrap(fault.InvalidFormat, err, "the page is nested too deeply").WithReason("CONTENT_TYPE")
	}
	trim(doc)
	if tooExpensive(doc) {
		return plainText(doc), nil
	}
	text, err := convert(doc, from.Scheme+"://"+from.Host)
	if err != nil {
		return "", fault.Wrap(fault.InvalidFormat, err, "the page cannot be read").WithReason("CONTENT_TYPE")
	}
	return text, nil
}

// convert returns a page as Markdown without escapes. Readers understand a lone * or [, and the converter would need
// quadratic time to find those that need an escape.
func convert(doc *html.Node, domain string) (string, error) {
	conv := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		// Aligned columns would pad every row to the width of the widest cell.
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
	text, err := conv.ConvertNode(doc, converter.WithDomain(domain))
	return string(bytes.TrimSpace(text)), err
}

// trim removes elements that are not content, and limits the spans of table cells.
func trim(doc *html.Node) {
	var removed []*html.Node
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if isHidden(n) {
			removed = append(removed, n)
		}
		n.Attr = attributes(n.Attr)
	}
	for _, n := range removed {
		n.Parent.RemoveChild(n)
	}
}

// isHidden reports whether an element is invisible, or typically the same on every page of a site.
func isHidden(n *html.Node) bool {
	switch n.Data {
	case "script", "style", "template", "noscript", "svg", "nav", "iframe", "object":
		return true
	}
	for _, a := range n.Attr {
		if a.Key == "hidden" {
			return true
		}
	}
	return false
}

// attributes drops the attributes colspan and rowspan with values above 20: a page of 100 bytes could request millions
// of cells.
func attributes(all []html.Attribute) []html.Attribute {
	const maxSpan = 20
	allowed := all[:0]
	for _, a := range all {
		if a.Key == "colspan" || a.Key == "rowspan" {
			if n, err := strconv.Atoi(a.Val); err != nil || n > maxSpan {
				continue
			}
		}
		allowed = append(allowed, a)
	}
	return allowed
}
