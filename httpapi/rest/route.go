package rest

import (
	"context"
	"net/http"
	"reflect"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// access defines which roles may use a route.
type access int

const (
	// reads is for all roles. Submitters and agents see their own tasks only.
	reads access = iota
	// readsAll is for the roles that see all tasks.
	readsAll
	// submits is for all roles but viewer. Submitters and agents change their own tasks only.
	submits
	// operates is for operators.
	operates
	// works is for registered agents. The service that the route calls refuses tokens with the role that are none.
	works
)

// changes reports whether a route changes something.
func (a access) changes() bool { return a == submits || a == operates }

// permits reports whether a role may use a route.
func (a access) permits(r Role) bool {
	switch a {
	case reads:
		return r == Operator || r == Viewer || r == Submitter || r == Agent
	case readsAll:
		return r == Operator || r == Viewer
	case submits:
		return r == Operator || r == Submitter || r == Agent
	case works:
		return r == Agent
	default:
		return r == Operator
	}
}

// place is the part of a request that contains a parameter.
type place string

const (
	inPath   place = "path"
	inQuery  place = "query"
	inHeader place = "header"
)

// param maps a parameter of a request to a field of the request struct.
type param struct {
	name string
	in   place
	// field is the JSON name of the field.
	field string
}

// fromPath, fromQuery and fromHeader return parameters. Without a field, the field has the name of the parameter.
func fromPath(name, field string) param   { return param{name, inPath, field} }
func fromHeader(name, field string) param { return param{name, inHeader, field} }
func fromQuery(names ...string) []param {
	params := make([]param, len(names))
	for i, name := range names {
		params[i] = param{name, inQuery, name}
	}
	return params
}

// action is what a route does, with its types.
type action struct {
	// in is the type of the request struct, out that of the answer.
	in, out reflect.Type
	// call calls the API. in is a pointer to the request struct.
	call func(ctx context.Context, a api.API, in any) (any, error)
}

// on returns the action that calls a method of the API.
func on[In, Out any](do func(api.API, context.Context, In) (Out, error)) action {
	return then(do, func(_ *In, out Out) (Out, error) { return out, nil })
}

// then returns the action that calls a method of the API and converts its reply.
func then[In, Out, Answer any](do func(api.API, context.Context, In) (Out, error), convert func(*In, Out) (Answer, error)) action {
	return action{
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Answer](),
		call: func(ctx context.Context, a api.API, in any) (any, error) {
			request, ok := in.(*In)
			if !ok {
				return nil, fault.New(fault.Internal, "a request has the wrong type")
			}
			out, err := do(a, ctx, *request)
			if err != nil {
				return nil, err
			}
			return convert(request, out)
		},
	}
}

// route is one HTTP method of one path.
type route struct {
	verb, path string
	// name is the operation id.
	name, summary string
	access        access
	// tool is the MCP tool with the same effect. A token that is narrowed to some tools may use the route only if it has that one, and not
	// at all if this is anyTool.
	tool   string
	params []param
	// body is set if the route takes a JSON body.
	body bool
	// hidden lists further fields that a client may not set.
	hidden []string
	action

	// prepare checks and completes a request struct; may be nil.
	prepare func(in any) error
	// answer sends the answer; nil sends it as JSON with status 200.
	answer func(x *exchange, out any)
	// stream writes the answer of a route without call, such as a stream of events; nil for all others.
	stream func(s *Server, x *exchange, in any) error
	// media is the content type of the answer; empty for application/json.
	media string
	// upload is the content type of a body that stream reads; empty for none.
	upload string
	// sends lists the types of the data of server-sent events; empty for all other routes.
	sends []reflect.Type
	// created is set if the answer may have status 201.
	created bool
}

// held returns how much of a body of size bytes the route holds in memory; -1 if unknown.
func (r *route) held(size int64) int64 {
	if r.upload != "" {
		return api.ImportPart
	}
	return size
}

// exchange is a request and its answer.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	id     string
	client Client
	// api is the API within the permissions of the client.
	api api.API
	// leave ends the count of the request against the limits of the client. It may be called more than once.
	leave func()
	// login is the login of a browser; nil for a bearer token.
	login *Login
}
