package wire_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/orch-dev/orch/tools/firebase/wire"
)

// The messages that Google generates are the oracle: what is written here is what they read, and the other way round.

// asStored is a value of JSON as Google's messages have it.
func asStored(value any) *firestorepb.Value {
	switch v := value.(type) {
	case bool:
		return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: v}}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 && !(v == 0 && math.Signbit(v)) {
			return integer(int64(v))
		}
		return double(v)
	case string:
		return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: v}}
	case wire.Reference:
		return &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: string(v)}}
	case []any:
		all := &firestorepb.ArrayValue{}
		for _, element := range v {
			all.Values = append(all.Values, asStored(element))
		}
		return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: all}}
	case map[string]any:
		return mapOf(asFields(v))
	default:
		return &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}
	}
}

func asFields(object map[string]any) map[string]*firestorepb.Value {
	all := map[string]*firestorepb.Value{}
	for name, value := range object {
		all[name] = asStored(value)
	}
	return all
}

func integer(v int64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: v}}
}

func double(v float64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: v}}
}

func mapOf(fields map[string]*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields}}}
}

// jsonValue is any value of JSON.
func jsonValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(),
		rapid.Map(rapid.Int64Range(-1<<54, 1<<54), func(n int64) any { return float64(n) }), rapid.Just[any](math.Copysign(0, -1)),
	}
	if depth > 0 {
		inner := rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) })
		kinds = append(kinds, rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func jsonObject() *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.String(), jsonValue(3), 0, 6)
}

func times() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
	})
}

// same fails the test unless Google's messages read what was written as want.
func same[M proto.Message](t require.TestingT, want M, written []byte) {
	got, ok := want.ProtoReflect().New().Interface().(M)
	require.True(t, ok)
	require.NoError(t, proto.Unmarshal(written, got))
	require.True(t, proto.Equal(want, got), "%v\n%v", want, got)
}

func TestCommit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, want := wire.Write{}, &firestorepb.Write{}
		if rapid.Bool().Draw(t, "delete") {
			w.Delete = "n"
			want.Operation = &firestorepb.Write_Delete{Delete: w.Delete}
		} else {
			w.Update = wire.Document{Name: "n", Fields: jsonObject().Draw(t, "fields")}
			want.Operation = &firestorepb.Write_Update{Update: &firestorepb.Document{Name: "n", Fields: asFields(w.Update.Fields)}}
		}
		if w.Masked = rapid.Bool().Draw(t, "masked"); w.Masked {
			w.Mask = rapid.SliceOf(rapid.String()).Draw(t, "mask")
			want.UpdateMask = &firestorepb.DocumentMask{FieldPaths: w.Mask}
		}
		switch rapid.IntRange(0, 3).Draw(t, "condition") {
		case 1, 2:
			w.If.Exists = rapid.Bool().Draw(t, "exists")
			w.If.Missing = !w.If.Exists
			want.CurrentDocument = &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: w.If.Exists}}
		case 3:
			w.If.Unchanged = times().Filter(func(at time.Time) bool { return !at.IsZero() }).Draw(t, "time")
			want.CurrentDocument = &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_UpdateTime{UpdateTime: timestamppb.New(w.If.Unchanged)}}
		default:
		}
		same(t, &firestorepb.CommitRequest{Database: "d", Writes: []*firestorepb.Write{want}}, wire.Commit("d", w))
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	same(t, &firestorepb.BatchGetDocumentsRequest{Database: "d", Documents: []string{"n"}}, wire.Get("d", "n"))
}

// bound is a bound of a query with its value in Google's messages.
func bound() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(),
		rapid.Map(rapid.String(), func(s string) any { return wire.Reference(s) }),
	)
}

func drawQuery(t *rapid.T) (wire.Query, *firestorepb.StructuredQuery) {
	q := wire.Query{
		Parent: "p", Collection: rapid.String().Draw(t, "collection"), OrderBy: rapid.String().Draw(t, "order"),
		StartAt: bound().Draw(t, "start"), EndAt: bound().Draw(t, "end"), Limit: rapid.IntRange(0, 1<<40).Draw(t, "limit"),
	}
	want := &firestorepb.StructuredQuery{From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: q.Collection}}}
	if q.OrderBy != "" {
		want.OrderBy = []*firestorepb.StructuredQuery_Order{{
			Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: q.OrderBy}, Direction: firestorepb.StructuredQuery_ASCENDING,
		}}
	}
	if q.StartAt != nil {
		want.StartAt = &firestorepb.Cursor{Values: []*firestorepb.Value{asStored(q.StartAt)}, Before: true}
	}
	if q.EndAt != nil {
		want.EndAt = &firestorepb.Cursor{Values: []*firestorepb.Value{asStored(q.EndAt)}}
	}
	if q.Limit > 0 {
		want.Limit = wrapperspb.Int32(int32(min(q.Limit, math.MaxInt32)))
	}
	return q, want
}

func TestQuery(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, want := drawQuery(t)
		same(t, &firestorepb.RunQueryRequest{
			Parent: "p", QueryType: &firestorepb.RunQueryRequest_StructuredQuery{StructuredQuery: want},
		}, wire.RunQuery(q))
	})
}

func TestListen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		target := wire.Target{ID: rapid.Int32Range(1, math.MaxInt32).Draw(t, "id")}
		want := &firestorepb.Target{TargetId: target.ID}
		if rapid.Bool().Draw(t, "document") {
			target.Document = "n"
			want.TargetType = &firestorepb.Target_Documents{Documents: &firestorepb.Target_DocumentsTarget{Documents: []string{"n"}}}
		} else {
			q, structured := drawQuery(t)
			target.Query = q
			want.TargetType = &firestorepb.Target_Query{Query: &firestorepb.Target_QueryTarget{
				Parent: "p", QueryType: &firestorepb.Target_QueryTarget_StructuredQuery{StructuredQuery: structured},
			}}
		}
		if target.Resume = rapid.SliceOf(rapid.Byte()).Draw(t, "resume"); len(target.Resume) > 0 {
			want.ResumeType = &firestorepb.Target_ResumeToken{ResumeToken: target.Resume}
		}
		same(t, &firestorepb.ListenRequest{Database: "d", TargetChange: &firestorepb.ListenRequest_AddTarget{AddTarget: want}}, wire.Listen("d", target))
	})
}

// foreign is a value as any client may have stored it, with how it is read.
type foreign struct {
	stored *firestorepb.Value
	read   any
}

func readNumber(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	return v
}

func foreignValue(depth int) *rapid.Generator[foreign] {
	kinds := []*rapid.Generator[foreign]{
		rapid.Map(jsonValue(0), func(v any) foreign {
			if f, ok := v.(float64); ok {
				return foreign{asStored(f), readNumber(f)}
			}
			return foreign{asStored(v), v}
		}),
		rapid.Map(rapid.Int64(), func(n int64) foreign { return foreign{integer(n), float64(n)} }),
		rapid.Map(rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}), func(v float64) foreign {
			return foreign{double(v), readNumber(v)}
		}),
		rapid.Map(times(), func(at time.Time) foreign {
			return foreign{&firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(at)}}, at.Format(time.RFC3339Nano)}
		}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) foreign {
			return foreign{&firestorepb.Value{ValueType: &firestorepb.Value_BytesValue{BytesValue: b}}, base64.StdEncoding.EncodeToString(b)}
		}),
		rapid.Map(rapid.String(), func(s string) foreign { return foreign{asStored(wire.Reference(s)), s} }),
		rapid.Map(rapid.SliceOfN(rapid.Float64(), 2, 2), func(at []float64) foreign {
			return foreign{
				&firestorepb.Value{ValueType: &firestorepb.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: at[0], Longitude: at[1]}}},
				map[string]any{"latitude": readNumber(at[0]), "longitude": readNumber(at[1])},
			}
		}),
	}
	if depth > 0 {
		inner := rapid.Deferred(func() *rapid.Generator[foreign] { return foreignValue(depth - 1) })
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(inner, 0, 4), func(all []foreign) foreign {
				stored, read := arrayOf(all)
				return foreign{stored, read}
			}),
			rapid.Map(rapid.SliceOfN(inner, 0, 4), func(all []foreign) foreign {
				stored, read := arrayOf(all)
				return foreign{mapOf(map[string]*firestorepb.Value{"__type__": asStored("__vector__"), "value": stored}), read}
			}),
			rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 4), func(all map[string]foreign) foreign {
				stored, read := objectOf(all)
				return foreign{mapOf(stored), read}
			}),
		)
	}
	return rapid.OneOf(kinds...)
}

func arrayOf(all []foreign) (*firestorepb.Value, []any) {
	stored, read := &firestorepb.ArrayValue{}, []any{}
	for _, v := range all {
		stored.Values, read = append(stored.Values, v.stored), append(read, v.read)
	}
	return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: stored}}, read
}

func objectOf(all map[string]foreign) (map[string]*firestorepb.Value, map[string]any) {
	stored, read := map[string]*firestorepb.Value{}, map[string]any{}
	for name, v := range all {
		stored[name], read[name] = v.stored, v.read
	}
	return stored, read
}

// drawDocument is a document as any client may have stored it, and how it is read.
func drawDocument(t *rapid.T) (*firestorepb.Document, *wire.Document) {
	stored, read := objectOf(rapid.MapOfN(rapid.String(), foreignValue(3), 0, 5).Draw(t, "fields"))
	at := times().Draw(t, "updated")
	name := rapid.StringN(1, -1, -1).Draw(t, "name")
	return &firestorepb.Document{Name: name, Fields: stored, CreateTime: timestamppb.New(at.Add(-1)), UpdateTime: timestamppb.New(at)},
		&wire.Document{Name: name, Fields: read, Updated: at}
}

func marshal(t require.TestingT, m proto.Message) []byte {
	message, err := proto.Marshal(m)
	require.NoError(t, err)
	return message
}

func TestReadDocuments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stored, want := drawDocument(t)
		now := timestamppb.New(time.Unix(9, 0))
		found, missing, err := wire.ReadGet(marshal(t, &firestorepb.BatchGetDocumentsResponse{
			Result: &firestorepb.BatchGetDocumentsResponse_Found{Found: stored}, ReadTime: now, Transaction: []byte("t"),
		}))
		require.NoError(t, err)
		assert.Equal(t, want, found)
		assert.Empty(t, missing)
		found, err = wire.ReadQuery(marshal(t, &firestorepb.RunQueryResponse{Document: stored, ReadTime: now, SkippedResults: 3}))
		require.NoError(t, err)
		assert.Equal(t, want, found)
	})
	found, missing, err := wire.ReadGet(marshal(t, &firestorepb.BatchGetDocumentsResponse{Result: &firestorepb.BatchGetDocumentsResponse_Missing{Missing: "n"}}))
	require.NoError(t, err)
	assert.Nil(t, found)
	assert.Equal(t, "n", missing)
	found, err = wire.ReadQuery(marshal(t, &firestorepb.RunQueryResponse{ReadTime: timestamppb.Now()}))
	require.NoError(t, err)
	assert.Nil(t, found)
}

func TestReadCommit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := times().Draw(t, "time")
		got, err := wire.ReadCommit(marshal(t, &firestorepb.CommitResponse{WriteResults: []*firestorepb.WriteResult{{}}, CommitTime: timestamppb.New(at)}))
		require.NoError(t, err)
		assert.Equal(t, at, got)
	})
	for _, wrong := range []*timestamppb.Timestamp{{Seconds: 1 << 60}, {Seconds: -1 << 60}, {Nanos: -1}, {Nanos: 1_000_000_000}} {
		_, err := wire.ReadCommit(marshal(t, &firestorepb.CommitResponse{CommitTime: wrong}))
		require.Error(t, err, "%v", wrong)
	}
}

const target = 7

func TestReadNewsOfDocuments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stored, want := drawDocument(t)
		change := &firestorepb.DocumentChange{Document: stored, TargetIds: rapid.SliceOf(rapid.Int32Range(5, 9)).Draw(t, "targets")}
		change.RemovedTargetIds = rapid.SliceOf(rapid.Int32Range(5, 9)).Draw(t, "removed")
		got, err := wire.ReadNews(marshal(t, &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentChange{DocumentChange: change}}), target)
		require.NoError(t, err)
		switch {
		case strings.Contains(fmt.Sprint(change.GetTargetIds()), strconv.Itoa(target)):
			assert.Equal(t, wire.News{Changed: want}, got)
		case strings.Contains(fmt.Sprint(change.GetRemovedTargetIds()), strconv.Itoa(target)):
			assert.Equal(t, wire.News{Gone: want.Name}, got)
		default:
			assert.Equal(t, wire.News{}, got)
		}
	})
	for _, gone := range []*firestorepb.ListenResponse{
		{ResponseType: &firestorepb.ListenResponse_DocumentDelete{DocumentDelete: &firestorepb.DocumentDelete{Document: "n", RemovedTargetIds: []int32{target}}}},
		{ResponseType: &firestorepb.ListenResponse_DocumentRemove{DocumentRemove: &firestorepb.DocumentRemove{Document: "n", RemovedTargetIds: []int32{target}}}},
	} {
		got, err := wire.ReadNews(marshal(t, gone), target)
		require.NoError(t, err)
		assert.Equal(t, wire.News{Gone: "n"}, got)
	}
	for _, n := range []int32{0, 3} {
		got, err := wire.ReadNews(marshal(t, &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_Filter{
			Filter: &firestorepb.ExistenceFilter{TargetId: target, Count: n, UnchangedNames: &firestorepb.BloomFilter{HashCount: 1}},
		}}), target)
		require.NoError(t, err)
		require.NotNil(t, got.Count)
		assert.Equal(t, int(n), *got.Count)
	}
}

func TestReadNewsOfTargets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := times().Draw(t, "time")
		state := rapid.SampledFrom([]wire.TargetState{wire.NoChange, wire.Added, wire.Removed, wire.Current, wire.Reset}).Draw(t, "state")
		kind := map[wire.TargetState]firestorepb.TargetChange_TargetChangeType{
			wire.NoChange: firestorepb.TargetChange_NO_CHANGE, wire.Added: firestorepb.TargetChange_ADD, wire.Removed: firestorepb.TargetChange_REMOVE,
			wire.Current: firestorepb.TargetChange_CURRENT, wire.Reset: firestorepb.TargetChange_RESET,
		}[state]
		ids := rapid.SliceOf(rapid.Int32Range(5, 9)).Draw(t, "targets")
		token := rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "token")
		got, err := wire.ReadNews(marshal(t, &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_TargetChange{TargetChange: &firestorepb.TargetChange{
			TargetChangeType: kind, TargetIds: ids, Cause: &status.Status{Code: 7, Message: "no"}, ResumeToken: token, ReadTime: timestamppb.New(at),
		}}}), target)
		require.NoError(t, err)
		assert.Equal(t, wire.News{Target: &wire.TargetChange{
			State: state, All: len(ids) == 0, Ours: strings.Contains(fmt.Sprint(ids), strconv.Itoa(target)), Code: 7, Message: "no", Resume: token, At: at,
		}}, got)
	})
	got, err := wire.ReadNews(marshal(t, &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_TargetChange{TargetChange: &firestorepb.TargetChange{}}}), target)
	require.NoError(t, err)
	assert.Equal(t, wire.News{Target: &wire.TargetChange{All: true}}, got)
}

// A repeated number may come in two forms, and a field that nobody knows is passed over.
func TestOtherForms(t *testing.T) {
	t.Parallel()
	var change []byte
	change = protowire.AppendTag(change, 2, protowire.VarintType)
	change = protowire.AppendVarint(change, target)
	change = protowire.AppendTag(change, 99, protowire.StartGroupType)
	change = protowire.AppendTag(change, 1, protowire.Fixed32Type)
	change = protowire.AppendFixed32(change, 1)
	change = protowire.AppendTag(change, 99, protowire.EndGroupType)
	change = protowire.AppendTag(change, 98, protowire.Fixed32Type)
	change = protowire.AppendFixed32(change, 1)
	got, err := wire.ReadNews(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), change), target)
	require.NoError(t, err)
	assert.Equal(t, wire.News{Target: &wire.TargetChange{Ours: true}}, got)
}

func TestUnknownValues(t *testing.T) {
	t.Parallel()
	deep := asStored(nil)
	for range 5000 {
		deep = &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: []*firestorepb.Value{deep}}}}
	}
	for name, value := range map[string]*firestorepb.Value{
		"no kind": {}, "a field": {ValueType: &firestorepb.Value_FieldReferenceValue{FieldReferenceValue: "f"}}, "too deep": deep,
		"time": {ValueType: &firestorepb.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Seconds: 1 << 60}}},
	} {
		_, err := wire.ReadQuery(marshal(t, &firestorepb.RunQueryResponse{Document: &firestorepb.Document{Fields: map[string]*firestorepb.Value{"f": value}}}))
		require.Error(t, err, name)
	}
}

// Whatever a server sends is read or refused.
func TestNoise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stored, _ := drawDocument(t)
		whole := marshal(t, &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentChange{
			DocumentChange: &firestorepb.DocumentChange{Document: stored, TargetIds: []int32{target}},
		}})
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			whole[rapid.IntRange(0, len(whole)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		whole = whole[:rapid.IntRange(0, len(whole)).Draw(t, "length")]
		_, _ = wire.ReadNews(whole, target)
		_, _ = wire.ReadQuery(whole)
		_, _, _ = wire.ReadGet(whole)
		_, _ = wire.ReadCommit(whole)
	})
}
