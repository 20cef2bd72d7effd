package web

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// maxContent is the maximum size of the returned content of a page, in bytes.
const maxContent = 16 << 10

// passage is a block of a page with the headings above it.
type passage struct {
	text string
	// terms counts the occurrences of each word of the prompt.
	terms map[string]int
	words int
	score float64
	index int
}

// bestPassages returns the passages that match the prompt best, in the order of the page, at most maxContent bytes in
// all. whole is true if the text is the complete page. The result is deterministic. If no word of the prompt occurs in
// the page, the text is the beginning of the page.
func bestPassages(page, prompt string) (text string, whole bool) {
	if len(page) <= maxContent {
		return page, true
	}
	all := split(page)
	rank(all, terms(prompt))
	slices.SortStableFunc(all, func(a, b *passage) int { return cmp.Compare(b.score, a.score) })
	var chosen []*passage
	size := 0
	for _, p := range all {
		if p.score == 0 && len(chosen) > 0 && all[0].score > 0 {
			break
		}
		if size+len(p.text)+len(gap) > maxContent {
			continue
		}
		chosen, size = append(chosen, p), size+len(p.text)+len(gap)
	}
	slices.SortFunc(chosen, func(a, b *passage) int { return cmp.Compare(a.index, b.index) })
	return joinPassages(chosen), false
}

// gap replaces omitted passages.
const gap = "\n\n[…]\n\n"

func joinPassages(chosen []*passage) string {
	var b strings.Builder
	for i, p := range chosen {
		switch {
		case i == 0:
		case chosen[i-1].index+1 == p.index:
			b.WriteString("\n\n")
		default:
			b.WriteString(gap)
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// split splits a page at blank lines. A heading belongs to the block after it, and a block of more than 2 KiB is
// split further.
func split(page string) []*passage {
	const maxBlock = 2 << 10
	var all []*passage
	heading := ""
	add := func(text string) { all = append(all, &passage{text: text, index: len(all)}) }
	for block := range strings.SplitSeq(page, "\n\n") {
		block = strings.Trim(block, "\n")
		switch {
		case strings.TrimSpace(block) == "":
			continue
		case strings.HasPrefix(block, "#") && len(heading)+len(block) < maxBlock:
			heading += block + "\n\n"
			continue
		}
		block, heading = heading+block, ""
		for len(block) > maxBlock {
			cut := cutPoint(block[:maxBlock])
			add(block[:cut])
			block = block[cut:]
		}
		add(block)
	}
	if heading != "" {
		add(strings.TrimSpace(heading))
	}
	return all
}

// cutPoint returns where to split a text near its end: after a line, else after a word, else after a character.
func cutPoint(text string) int {
	for _, at := range []int{strings.LastIndexByte(text, '\n'), strings.LastIndexByte(text, ' ')} {
		if at > len(text)/2 {
			return at + 1
		}
	}
	return len(wholeRunes([]byte(text)))
}

// rank scores passages by the words of the prompt in them (BM25).
func rank(all []*passage, terms []string) {
	const k, b = 1.2, 0.75
	documents, total := map[string]int{}, 0
	for _, p := range all {
		p.count(terms)
		total += p.words
		for word := range p.terms {
			documents[word]++
		}
	}
	average := float64(total)/float64(len(all)) + 1
	for _, p := range all {
		for _, word := range terms { // in a fixed order, because float addition is not associative
			n, f := float64(documents[word]), float64(p.terms[word])
			idf := math.Log(1 + (float64(len(all))-n+0.5)/(n+0.5))
			p.score += idf * f * (k + 1) / (f + k*(1-b+b*float64(p.words)/average))
		}
	}
}

func (p *passage) count(terms []string) {
	p.terms = map[string]int{}
	for word := range words(p.text) {
		p.words++
		if slices.Contains(terms, word) {
			p.terms[word]++
		}
	}
}

// terms returns the distinct words of a prompt without filler words.
func terms(prompt string) []string {
	var all []string
	for word := range words(prompt) {
		if len(word) > 1 && !slices.Contains(fillerWords(), word) && !slices.Contains(all, word) && len(all) < 64 {
			all = append(all, word)
		}
	}
	return all
}

// words yields the words of a text in lower case, without a plural s.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}) {
			if len(word) > 3 {
				word = strings.TrimSuffix(word, "s")
			}
			if !yield(word) {
				return
			}
		}
	}
}

func fillerWords() []string {
	return strings.Fields("the and for are was were what which who how when where why does did this that these those " +
		"with from into about page website site tell give list find extract show please all any is it in of on to an as at be by do or")
}
