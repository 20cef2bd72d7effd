package secrets

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// index finds keywords. Each keyword belongs to one of 64 buckets. A keyword is searched for by a few consecutive
// bytes; they begin at its anchor, where its bytes are rare. first, second and third map a byte to a bit set: the
// buckets with a keyword that has this byte at the first, second or third position after the anchor. For most offsets
// of a text no bucket is in all three sets. So most bytes of a text cost three lookups in 6 KiB of tables.
type index struct {
	first, second, third [256]uint64
	// fourth is the table for the fourth position. It is used where a bucket is in all three sets.
	fourth  [256]uint64
	buckets [64][]probe
}

// probe is a keyword with its anchor, the offset of its rarest bytes. It is compared with the text where the bytes
// after the anchor match its bucket.
type probe struct {
	key

	anchor int
}

// newIndex returns an index of the keys. The keywords of a bucket are tried in the order of their rules.
func newIndex(keys []key) *index {
	probes := make([]probe, len(keys))
	for i, k := range keys {
		probes[i] = probe{k, anchorOf(k.text)}
	}
	x := &index{}
	for i, list := range grouped(probes) {
		for j := range list {
			x.add(&list[j], i)
		}
	}
	rank := map[string]int{}
	for i, k := range keys {
		if _, known := rank[k.rule]; !known {
			rank[k.rule] = i
		}
	}
	for i := range x.buckets {
		slices.SortStableFunc(x.buckets[i], func(a, b probe) int { return cmp.Compare(rank[a.rule], rank[b.rule]) })
	}
	return x
}

// grouped distributes the probes among the buckets. A bucket contains similar probes, because short and
// case-insensitive keywords match more often than others.
func grouped(probes []probe) [64][]probe {
	kind := func(p probe) int {
		switch {
		case len(p.text) == 2:
			return int(p.text[0])
		case p.fold:
			return 1 << 8
		}
		return 1 << 9
	}
	slices.SortStableFunc(probes, func(a, b probe) int {
		return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(a.text[a.anchor:], b.text[b.anchor:]))
	})
	var short, long [][]probe
	for len(probes) > 0 {
		n := slices.IndexFunc(probes, func(p probe) bool { return kind(p) != kind(probes[0]) })
		if n < 0 {
			n = len(probes)
		}
		if len(probes[0].text) == 2 {
			short = append(short, probes[:n])
		} else {
			long = append(long, probes[:n])
		}
		probes = probes[n:]
	}
	var groups [64][]probe
	copy(groups[:], short)
	spread(groups[len(short):], long)
	return groups
}

// spread distributes lists among groups, in order and by size.
func spread(groups [][]probe, lists [][]probe) {
	total := 0
	for _, list := range lists {
		total += len(list)
	}
	for i, list := range lists {
		n := max(1, len(groups)*len(list)/max(1, total))
		if i == len(lists)-1 {
			n = len(groups)
		}
		for j, p := range list {
			groups[j*n/len(list)] = append(groups[j*n/len(list)], p)
		}
		groups, total = groups[n:], total-len(list)
	}
}

func (x *index) add(p *probe, bucket int) {
	bit := uint64(1) << bucket
	for i, table := range []*[256]uint64{&x.first, &x.second, &x.third, &x.fourth} {
		at := p.anchor + i
		if at >= len(p.text) { // past the end of a short keyword
			for c := range table {
				table[c] |= bit
			}
			continue
		}
		for _, c := range forms(p.text[at], p.fold) {
			table[c] |= bit
		}
	}
	x.buckets[bucket] = append(x.buckets[bucket], *p)
}

// forms returns the bytes that match the byte c of a keyword.
func forms(c byte, fold bool) []byte {
	if fold && isLower(c) {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// anchorOf returns the offset of the rarest three consecutive bytes of a keyword.
func anchorOf(text string) int {
	const common = "etaoinsrlhdcu"
	best, least := 0, 1<<10
	for at := 0; at+3 <= len(text) && (at == 0 || at+4 <= len(text)); at++ {
		weight := 0
		for _, c := range []byte(text[at : at+3]) {
			if i := strings.IndexByte(common, c); i >= 0 {
				weight += len(common) - i
			}
		}
		if weight < least {
			best, least = at, weight
		}
	}
	return best
}

// find returns the secrets in data, in order and without overlap.
func (x *index) find(data []byte) []Finding {
	var found []Finding
	missed := misses{}
	after := 0 // the end of the last finding
	for i := 0; i+2 < len(data); i++ {
		hits := x.first[data[i]] & x.second[data[i+1]] & x.third[data[i+2]]
		if hits == 0 || i < after {
			continue
		}
		if f, ok := x.try(data, i, after, hits, missed); ok {
			found = append(found, f)
			if f.Rule == "private_key" {
				found = append(found, keyLines(data, f.Offset+f.Length)...)
			}
			last := found[len(found)-1]
			after = last.Offset + last.Length
		}
	}
	return found
}

// try looks for a secret with its anchor at offset i. It tries the keywords of the buckets in hits. It ignores a secret
// that begins before offset after.
func (x *index) try(data []byte, i, after int, hits uint64, missed misses) (Finding, bool) {
	if i+3 < len(data) {
		hits &= x.fourth[data[i+3]]
	}
	for ; hits != 0; hits &= hits - 1 {
		bucket := x.buckets[bits.TrailingZeros64(hits)]
		for j := range bucket {
			if f, ok := bucket[j].try(data, i, missed); ok && f.Offset >= after {
				return f, true
			}
		}
	}
	return Finding{}, false
}

// try looks for a secret with the anchor of the keyword at offset i.
func (p *probe) try(data []byte, i int, missed misses) (Finding, bool) {
	at := i - p.anchor
	if !p.matchesAt(data, at) {
		return Finding{}, false
	}
	find := p.find
	if missed.exhausted(p, at) {
		find = p.findAgain
	}
	begin, end, ok := find(data, at)
	if !ok && end > at+len(p.text) {
		missed.add(p, at, end)
		begin, end, ok = p.findApart(data, at, end, noMatch)
	}
	return Finding{Rule: p.rule, Offset: begin, Length: end - begin}, ok && end > begin
}

// matchesAt reports whether the keyword is at an offset.
func (p *probe) matchesAt(data []byte, at int) bool {
	return at >= 0 && at+len(p.text) <= len(data) && p.has(data[at:at+len(p.text)])
}

// has reports whether text is the keyword, which must have the same length.
func (p *probe) has(text []byte) bool {
	for i, c := range text {
		if p.fold && isUpper(c) {
			c += 'a' - 'A'
		}
		if c != p.text[i] {
			return false
		}
	}
	return true
}
