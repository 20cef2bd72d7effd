package modelstest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/orch-dev/orch/models"
)

// openAI returns the protocol of chat completions.
func openAI() dialect {
	chunk := func(delta object, finish any) frame {
		return frame{"", object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "gpt-test", "usage": nil,
			"choices": []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}},
		}}
	}
	text := func(text string) frame { return chunk(object{"content": text}, nil) }
	return dialect{
		wire: OpenAI,
		key:  func(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") },
		text: text,
		frames: func(a models.Answer, piece int) []frame {
			list, calls := []frame{chunk(object{"role": "assistant", "content": "", "refusal": nil}, nil)}, 0
			for _, p := range a.Message.Parts {
				switch {
				case p.Call != nil:
					list = append(list, openAICall(chunk, *p.Call, calls, piece)...)
					calls++
				case p.Opaque != nil:
					list = append(list, chunk(object{"reasoning_content": p.Opaque.Data}, nil))
				default:
					for _, piece := range pieces(p.Text, piece) {
						list = append(list, text(piece))
					}
				}
			}
			finish := map[models.Stop]string{
				models.StopEnd: "stop", models.StopCalls: "tool_calls", models.StopLength: "length", models.StopRefused: "content_filter", models.StopOther: "tired",
			}[a.Stop]
			return append(list, chunk(object{}, finish), openAIUsage(a.Usage), frame{"", "[DONE]"})
		},
		failure: func(status int, message string) any {
			kind := map[int]string{401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}[status]
			return object{"error": object{"message": message, "type": kind, "param": nil, "code": nil}}
		},
	}
}

// openAICall returns the events of a call.
func openAICall(chunk func(object, any) frame, call models.Call, index, piece int) []frame {
	delta := func(fields object) frame {
		fields["index"] = index
		return chunk(object{"tool_calls": []object{fields}}, nil)
	}
	list := []frame{delta(object{"id": numbered(call.ID, index), "type": "function", "function": object{"name": call.Name, "arguments": ""}})}
	for _, text := range pieces(call.Args, piece) {
		list = append(list, delta(object{"function": object{"arguments": text}}))
	}
	return list
}

func openAIUsage(u models.Usage) frame {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return frame{"", object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "gpt-test", "choices": []object{},
		"usage": object{
			"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
			"prompt_tokens_details":     object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite, "audio_tokens": 0},
			"completion_tokens_details": object{"reasoning_tokens": u.Output / 2},
		},
	}}
}

// anthropic returns the protocol of messages.
func anthropic() dialect {
	event := func(kind string, fields object) frame {
		fields["type"] = kind
		return frame{kind, fields}
	}
	return dialect{
		wire: Anthropic,
		// The documentation says x-api-key; the official client of 2026 sends a bearer token.
		key: func(h http.Header) string {
			return cmp.Or(h.Get("X-Api-Key"), strings.TrimPrefix(h.Get("Authorization"), "Bearer "))
		},
		text: func(text string) frame {
			return event("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": text}})
		},
		frames: func(a models.Answer, piece int) []frame {
			list := []frame{
				event("message_start", object{"message": object{
					"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": []object{}, "stop_reason": nil, "stop_sequence": nil,
					"usage": object{"input_tokens": a.Usage.Input, "cache_read_input_tokens": a.Usage.CacheRead, "cache_creation_input_tokens": a.Usage.CacheWrite, "output_tokens": 1},
				}}),
				event("ping", object{}),
			}
			for i, p := range a.Message.Parts {
				start, deltas := anthropicBlock(p, i, piece)
				list = append(list, event("content_block_start", object{"index": i, "content_block": start}))
				for _, d := range deltas {
					list = append(list, event("content_block_delta", object{"index": i, "delta": d}))
				}
				list = append(list, event("content_block_stop", object{"index": i}))
			}
			reason := map[models.Stop]string{
				models.StopEnd: "end_turn", models.StopCalls: "tool_use", models.StopLength: "max_tokens", models.StopRefused: "refusal", models.StopOther: "pause_turn",
			}[a.Stop]
			return append(list,
				event("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": a.Usage.Output}}),
				event("message_stop", object{}))
		},
		failure: func(status int, message string) any {
			kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}[status]
			return object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_1"}
		},
	}
}

// anthropicBlock returns the beginning of a block and what is added to it.
func anthropicBlock(p models.Part, index, piece int) (start object, deltas []object) {
	switch {
	case p.Call != nil:
		for _, text := range pieces(p.Call.Args, piece) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": text})
		}
		return object{"type": "tool_use", "id": numbered(p.Call.ID, index), "name": p.Call.Name, "input": object{}}, deltas
	case p.Opaque != nil:
		var block struct{ Type, Thinking, Signature string }
		if err := json.Unmarshal(p.Opaque.Data, &block); err != nil {
			panic(err) // a mistake in the test
		}
		if block.Type != "thinking" {
			_ = json.Unmarshal(p.Opaque.Data, &start) // it was just read
			return start, nil
		}
		for _, text := range pieces(block.Thinking, piece) {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": text})
		}
		deltas = append(deltas, object{"type": "signature_delta", "signature": block.Signature})
		return object{"type": "thinking", "thinking": "", "signature": ""}, deltas
	default:
		for _, text := range pieces(p.Text, piece) {
			deltas = append(deltas, object{"type": "text_delta", "text": text})
		}
		return object{"type": "text", "text": ""}, deltas
	}
}

// gemini returns the protocol of generateContent.
func gemini() dialect {
	chunk := func(part object, fields object) frame {
		candidate := object{"index": 0, "content": object{"role": "model", "parts": []object{part}}}
		maps.Copy(candidate, fields)
		return frame{"", object{"candidates": []object{candidate}, "modelVersion": "gemini-test", "responseId": "resp-1"}}
	}
	text := func(text string) frame { return chunk(object{"text": text}, nil) }
	return dialect{
		wire: Gemini,
		key:  func(h http.Header) string { return h.Get("X-Goog-Api-Key") },
		text: text,
		frames: func(a models.Answer, piece int) []frame {
			list := []frame{}
			add := func(part object) { list = append(list, chunk(part, nil)) }
			for _, part := range geminiParts(a.Message.Parts, piece) {
				add(part)
			}
			reason := map[models.Stop]string{
				models.StopEnd: "STOP", models.StopCalls: "STOP", models.StopLength: "MAX_TOKENS", models.StopRefused: "SAFETY", models.StopOther: "LANGUAGE",
			}[a.Stop]
			end := chunk(object{"text": ""}, object{"finishReason": reason})
			if whole, ok := end.data.(object); ok {
				whole["usageMetadata"] = object{
					"promptTokenCount": a.Usage.Input + a.Usage.CacheRead, "cachedContentTokenCount": a.Usage.CacheRead,
					"candidatesTokenCount": a.Usage.Output - a.Usage.Output/2, "thoughtsTokenCount": a.Usage.Output / 2,
					"totalTokenCount": a.Usage.Input + a.Usage.CacheRead + a.Usage.Output,
				}
			}
			return append(list, end)
		},
		failure: func(status int, message string) any {
			kind := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 529: "UNAVAILABLE"}[status]
			return object{"error": object{"code": status, "message": message, "status": kind}}
		},
	}
}

// geminiParts returns the parts of a message. The signature of an opaque part belongs to the part behind it.
func geminiParts(parts []models.Part, piece int) (list []object) {
	var signature any
	add := func(part object) {
		if signature != nil {
			part["thoughtSignature"], signature = signature, nil
		}
		list = append(list, part)
	}
	for _, p := range parts {
		switch {
		case p.Call != nil:
			call := object{"name": p.Call.Name, "args": json.RawMessage(p.Call.Args)}
			if p.Call.ID != "" {
				call["id"] = p.Call.ID
			}
			add(object{"functionCall": call})
		case p.Opaque != nil:
			signature = p.Opaque.Data
		default:
			for _, text := range pieces(p.Text, piece) {
				add(object{"text": text})
			}
		}
	}
	if signature != nil {
		add(object{"text": ""})
	}
	return list
}
