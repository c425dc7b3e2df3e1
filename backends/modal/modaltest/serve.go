package modaltest

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"hermes/backends/modal/wire"
)

// caller is who calls: a workspace, or the task of a router's token.
type callerKey struct{}

func caller(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(string)
	return who
}

// services are the tables of calls.
func (f *Fake) services() []*grpc.ServiceDesc {
	main := &grpc.ServiceDesc{ServiceName: wire.Service, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		unary(wire.AuthTokenGet, f.authToken),
		unary(wire.EnvironmentGetOrCreate, f.environment),
		unary(wire.AppGetOrCreate, f.app),
		unary(wire.SecretGetOrCreate, f.secret),
		unary(wire.ImageGetOrCreate, f.image),
		unary(wire.SandboxCreate, f.create),
		unary(wire.SandboxGetFromName, f.fromName),
		unary(wire.SandboxGetTaskID, f.taskID),
		unary(wire.SandboxList, f.list),
		unary(wire.SandboxSnapshotFs, f.snapshot),
		unary(wire.SandboxTerminate, f.terminate),
		unary(wire.SandboxWait, f.wait),
		unary(wire.TaskGetCommandRouterAccess, f.access),
	}, Streams: []grpc.StreamDesc{stream(f, wire.ImageJoinStreaming, f.joinImage)}}
	router := &grpc.ServiceDesc{ServiceName: wire.Router, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		unary(wire.TaskExecStart, f.execStart),
		unary(wire.TaskExecStdinWrite, f.stdinWrite),
		unary(wire.TaskExecWait, f.execWait),
	}, Streams: []grpc.StreamDesc{stream(f, wire.TaskExecStdioRead, f.stdioRead)}}
	return []*grpc.ServiceDesc{main, router}
}

// unary makes the handler of a call that has one answer.
func unary[In, Out any](name string, do func(context.Context, *In) (*Out, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		f, in := srv.(*Fake), new(In)
		if err := decode(in); err != nil {
			return nil, err
		}
		ctx, err := f.admit(ctx, name)
		if err != nil {
			return nil, err
		}
		x := f.faults.draw(name)
		if x.err != nil && !x.done {
			return nil, x.err
		}
		if err := x.wait(ctx); err != nil {
			return nil, err
		}
		out, err := f.once(ctx, name, func() (any, error) { return do(ctx, in) })
		if x.twice && err == nil {
			out, err = do(ctx, in) // whatever the key: what makes something meets what the first one made
		}
		if x.done { // but the client gets an error
			return nil, x.err
		}
		if x.torn && err == nil {
			return torn{out}, nil
		}
		return out, err
	}}
}

// stream makes the handler of a call whose answer is a stream.
func stream[In, Out any](f *Fake, name string, do func(context.Context, *In, func(*Out) error) error) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		in := new(In)
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		ctx, err := f.admit(s.Context(), name)
		if err != nil {
			return err
		}
		x := f.faults.draw(name)
		if x.err != nil && !x.done {
			return x.err
		}
		if err := x.wait(ctx); err != nil {
			return err
		}
		return do(ctx, in, func(o *Out) error {
			if x.torn {
				return s.SendMsg(torn{o})
			}
			if err := s.SendMsg(o); err != nil {
				return err
			}
			return x.err
		})
	}}
}

// torn is an answer of which one half comes.
type torn struct{ all any }

// codec writes such answers too.
type codec struct{ wire.Codec }

func (c codec) Marshal(v any) ([]byte, error) {
	t, ok := v.(torn)
	if !ok {
		return c.Codec.Marshal(v)
	}
	raw, err := c.Codec.Marshal(t.all)
	return raw[:len(raw)/2], err
}

// admit looks at the metadata of a call.
func (f *Fake) admit(ctx context.Context, name string) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	get := func(key string) string { return strings.Join(md.Get(key), ",") }
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[name]++
	for k := range md {
		f.seen[k] = get(k)
	}
	router := strings.HasPrefix(name, "TaskExec")
	token, whose := get(wire.MetaAuthToken), get(wire.MetaTokenID)
	switch {
	case router:
		token = strings.TrimPrefix(get(wire.MetaAuthorization), "Bearer ")
		if get(wire.MetaTokenSecret) != "" {
			return nil, status.Error(codes.InvalidArgument, "the router was sent the account's secret")
		}
	case get(wire.MetaClientType) == "" || get(wire.MetaClientVersion) == "" || get(wire.MetaLibrary) == "":
		return nil, status.Error(codes.InvalidArgument, "the client does not say what it is")
	case whose == "" || f.opt.Tokens[whose] == "" || f.opt.Tokens[whose] != get(wire.MetaTokenSecret):
		return nil, status.Errorf(codes.Unauthenticated, "Token %s with secret %s is not valid", whose, get(wire.MetaTokenSecret)) // a service that talks too much
	case name == wire.AuthTokenGet || name == wire.ImageJoinStreaming:
		return context.WithValue(ctx, callerKey{}, whose), nil
	}
	owner, ok := f.tokens[token]
	if !ok || time.Now().After(f.ends[token]) || !router && owner != whose {
		return nil, status.Error(codes.Unauthenticated, "the token has expired")
	}
	return context.WithValue(ctx, callerKey{}, owner), nil
}

// once does a call that makes something once for its idempotency key.
func (f *Fake) once(ctx context.Context, name string, do func() (any, error)) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	key := strings.Join(md.Get(wire.MetaIdempotency), "")
	if name != wire.SandboxCreate || key == "" {
		return do()
	}
	f.mu.Lock()
	o, again := f.done[key]
	if !again {
		o = &once{ready: make(chan struct{})}
		f.done[key] = o
	}
	f.mu.Unlock()
	if !again {
		o.answer, o.err = do()
		close(o.ready)
	}
	select {
	case <-o.ready:
		return o.answer, o.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (f *Fake) authToken(ctx context.Context, _ *wire.Empty) (*wire.AuthToken, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &wire.AuthToken{Token: f.issue(caller(ctx))}, nil
}

func (f *Fake) environment(_ context.Context, in *wire.EnvironmentRequest) (*wire.Environment, error) {
	if in.Name != "" && in.Name != "main" {
		return nil, status.Errorf(codes.NotFound, "Environment '%s' not found", in.Name)
	}
	return &wire.Environment{ID: "en-1", Metadata: &wire.EnvironmentMetadata{Name: "main", Settings: &wire.EnvironmentSettings{Builder: builder}}}, nil
}

// builder is the version of the image builder that calls must name.
const builder = "2025.06"

func (f *Fake) app(ctx context.Context, in *wire.AppRequest) (*wire.App, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := caller(ctx) + "/" + in.Environment + "/" + in.Name
	if f.apps[key] == "" {
		if in.Creation != wire.CreateIfMissing {
			return nil, status.Errorf(codes.NotFound, "App '%s' not found", in.Name)
		}
		f.apps[key] = f.id("ap")
		f.owners[f.apps[key]] = caller(ctx)
	}
	return &wire.App{ID: f.apps[key]}, nil
}

func (f *Fake) secret(_ context.Context, in *wire.SecretRequest) (*wire.Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.id("st")
	f.secrets[id] = in.Values
	return &wire.Secret{ID: id}, nil
}
