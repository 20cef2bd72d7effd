package audit

import "context"

// Origin is who has sent a request, as a face has found out.
type Origin struct {
	// Actor, Credential, Face and Source are those of Act.
	Actor, Credential, Face, Source string
}

type originKey struct{}

// WithOrigin returns a context with the origin of a request.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns the origin of a request; the zero Origin if the context has none.
func OriginOf(ctx context.Context) Origin {
	o, _ := ctx.Value(originKey{}).(Origin)
	return o
}
