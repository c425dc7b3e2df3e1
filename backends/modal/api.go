package modal

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"hermes/backends/modal/wire"
	slotd "hermes/backends/slotd/wire"
)

// How we name ourselves: as the Go SDK of this protocol version.
const (
	clientType    = "9"
	clientVersion = "1.0.0"
	library       = "hermes"
)

// maxMessage bounds what is read in one message.
const maxMessage = 100 << 20

// Times of the service's tokens.
const (
	earlyRefresh = 5 * time.Minute  // before a token's end
	plainToken   = 20 * time.Minute // life of a token that does not say
)

// How often a call is repeated that the service has not refused.
const (
	callRetries = 3
	firstPause  = 100 * time.Millisecond
	mostPause   = time.Second
)

// api is the service as one account sees it.
type api struct {
	conn       *grpc.ClientConn
	id, secret string
	each       time.Duration // most that one try of a call takes
	plain      bool          // the service is on this machine, without TLS

	turn    chan struct{} // held by whoever fetches a token
	mu      sync.Mutex
	token   string
	refresh time.Time // when the token is too old
}

// connect makes a connection, lazily.
func connect(server, id, secret string, each time.Duration) (*api, error) {
	address, secure, err := target(server, true)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", server, err)
	}
	conn, err := dial(address, secure)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", server, err)
	}
	return &api{conn: conn, id: id, secret: secret, each: each, plain: !secure, turn: make(chan struct{}, 1)}, nil
}

func dial(address string, secure bool) (*grpc.ClientConn, error) {
	how := insecure.NewCredentials()
	if secure {
		how = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	} else {
		address = "passthrough:///" + address
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(how), grpc.WithDisableServiceConfig(), grpc.WithUserAgent(library),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(wire.Codec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}))
}

// close may be called again.
func (a *api) close() error {
	if err := a.conn.Close(); status.Code(err) != codes.Canceled {
		return err
	}
	return nil
}

// headers are what every call bears.
func (a *api) headers(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, wire.MetaClientType, clientType, wire.MetaClientVersion, clientVersion, wire.MetaLibrary, library,
		wire.MetaTokenID, a.id, wire.MetaTokenSecret, a.secret)
}

// call asks the service. A call that was not refused is repeated under the same
// idempotency key. Its error is a *callError, or ctx's.
func (a *api) call(ctx context.Context, call string, in, out any) error {
	return a.within(ctx, a.each, call, in, out)
}

// within is call with another bound of one try.
func (a *api) within(ctx context.Context, each time.Duration, call string, in, out any) error {
	key := slotd.NewID() + slotd.NewID()
	began := time.Now()
	pause := firstPause
	renewed := false
	for try := 0; ; try++ {
		err := a.once(ctx, each, call, in, out, wire.MetaIdempotency, key, wire.MetaRetryAttempt, strconv.Itoa(try),
			wire.MetaRetryDelay, strconv.FormatFloat(time.Since(began).Seconds(), 'f', 3, 64))
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", call, context.Cause(ctx))
		case codeOf(err) == codes.Unauthenticated && !renewed && a.forget():
			renewed = true
			continue
		case !passing(err) || try >= callRetries:
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		pause = min(2*pause, mostPause)
	}
}

func (a *api) once(ctx context.Context, each time.Duration, call string, in, out any, more ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, each, fmt.Errorf("no answer within %v", each))
	defer cancel()
	if call != wire.AuthTokenGet {
		token, err := a.authToken(ctx)
		if err != nil {
			return err
		}
		more = append(more, wire.MetaAuthToken, token)
	}
	ctx = metadata.AppendToOutgoingContext(a.headers(ctx), more...)
	if err := a.conn.Invoke(ctx, "/"+wire.Service+"/"+call, in, out); err != nil {
		return failed(call, err, a.secret, a.id)
	}
	return nil
}

// stream opens a call that answers with a stream.
func (a *api) stream(ctx context.Context, call string, in any) (grpc.ClientStream, error) {
	s, err := openStream(a.headers(ctx), a.conn, "/"+wire.Service+"/"+call, in)
	if err != nil {
		return nil, failed(call, err, a.secret, a.id)
	}
	return s, nil
}

func openStream(ctx context.Context, conn *grpc.ClientConn, method string, in any) (grpc.ClientStream, error) {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(in); err != nil {
		return nil, s.RecvMsg(&wire.Empty{}) // which has the cause
	}
	return s, s.CloseSend()
}

// authToken is the token of most calls. One caller fetches it for all.
func (a *api) authToken(ctx context.Context) (string, error) {
	if token := a.fresh(); token != "" {
		return token, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return "", &callError{call: wire.AuthTokenGet, code: codes.DeadlineExceeded, text: "others are fetching a token: " + context.Cause(ctx).Error()}
	}
	if token := a.fresh(); token != "" {
		return token, nil
	}
	var answer wire.AuthToken
	if err := a.once(ctx, a.each, wire.AuthTokenGet, &wire.Empty{}, &answer); err != nil {
		return "", err
	}
	if answer.Token == "" {
		return "", &callError{call: wire.AuthTokenGet, code: codes.Internal, text: "the answer has no token"}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token, a.refresh = answer.Token, time.Now().Add(plainToken)
	if end, ok := expiry(answer.Token); ok {
		a.refresh = end.Add(-earlyRefresh)
		if left := time.Until(end); left < 2*earlyRefresh { // one that lives for minutes only
			a.refresh = time.Now().Add(left / 2)
		}
	}
	return a.token, nil
}

func (a *api) fresh() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().After(a.refresh) {
		return ""
	}
	return a.token
}

// forget drops the token, and reports whether there was one.
func (a *api) forget() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.token != ""
	a.token = ""
	return was
}

// expiry is when a JWT ends. Its signature is not checked: hermes only passes it on.
func expiry(jwt string) (time.Time, bool) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Exp json.Number `json:"exp"`
	}
	if err = errors.Join(err, json.Unmarshal(raw, &claims)); err != nil {
		return time.Time{}, false
	}
	exp, err := claims.Exp.Int64()
	return time.Unix(exp, 0), err == nil && exp > 0
}

// sleep waits, or ends with ctx's cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
