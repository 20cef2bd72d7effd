package server

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// shortenJSON shortens a JSON value to about limit bytes, and describes what it has omitted.
func shortenJSON(raw json.RawMessage, limit int) (json.RawMessage, string) {
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil || len(items) == 0 {
		return shortened(raw, limit), fmt.Sprintf("%d bytes, shortened", len(raw))
	}
	kept, texts := shortenList(items, limit)
	if len(kept) == len(items) {
		return texts, fmt.Sprintf("all %d items, with long texts cut", len(items))
	}
	return texts, fmt.Sprintf("the first %d of %d items", len(kept), len(items))
}

// shortenList returns the items that fit into limit bytes, and their JSON array. It first shortens the texts of the items; if
// that is not enough, it drops the last items.
func shortenList(items []json.RawMessage, limit int) (kept []json.RawMessage, text json.RawMessage) {
	for _, longest := range []int{1 << 30, 2000, 500, 150} {
		kept = nil
		size := 2
		for _, item := range items {
			short := shortenTexts(item, longest)
			if size += len(short) + 1; size > limit {
				break
			}
			kept = append(kept, short)
		}
		if len(kept) == len(items) {
			break
		}
	}
	if len(kept) == 0 {
		kept = []json.RawMessage{shortened(items[0], limit)}
	}
	return kept, joined(kept)
}

// joined returns a JSON array of the items.
func joined(items []json.RawMessage) json.RawMessage {
	parts := make([][]byte, len(items))
	for i, item := range items {
		parts[i] = item
	}
	return append(append([]byte("["), bytes.Join(parts, []byte(","))...), ']')
}

// shortened returns an object with shortened fields, or any other value with shortened texts, of about limit bytes.
func shortened(raw json.RawMessage, limit int) json.RawMessage {
	fields, err := fieldsInOrder(raw)
	if err != nil {
		return shortenTexts(raw, max(limit, 64))
	}
	for i := range fields {
		fields[i].long = false
	}
	share := fairLimit(fields, limit)
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if f.size() > share {
			f.raw, _ = shortenJSON(f.raw, share-len(f.name)-len(`"":,`))
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len()+f.size() > limit && i > 0 {
			fmt.Fprintf(&b, `"…":"%d more"`, len(fields)-i)
			break
		}
		b.Write(mustJSON(f.name))
		b.WriteByte(':')
		b.Write(f.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// shortenTexts shortens each string in a JSON value to longest bytes.
func shortenTexts(raw json.RawMessage, longest int) json.RawMessage {
	if len(raw) <= longest {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return raw
	}
	return plainJSON(shortenValue(value, longest))
}

func shortenValue(value any, longest int) any {
	switch v := value.(type) {
	case string:
		if len(v) > longest {
			return beginning(v, longest) + "…"
		}
	case []any:
		for i := range v {
			v[i] = shortenValue(v[i], longest)
		}
	case map[string]any:
		for name := range v {
			v[name] = shortenValue(v[name], longest)
		}
	}
	return value
}
