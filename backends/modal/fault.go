package modal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hermes/backends"
	"hermes/backends/modal/wire"
)

// Reasons why there is no box, or no longer. They stand beside one of backends' errors.
var (
	ErrAuth       = errors.New("the service refuses the token")
	ErrQuota      = errors.New("the service's quota or rate limit is reached")
	ErrRefused    = errors.New("the service refuses what was asked for")
	ErrNoService  = errors.New("the service does not answer")
	ErrBuild      = errors.New("the image could not be built")
	ErrTerminated = errors.New("the sandbox was terminated")
	ErrTimeout    = errors.New("the sandbox's lifetime is over (timeout: in the section backends.modal)")
	ErrIdle       = errors.New("the sandbox was idle for too long (idle: in the section backends.modal)")
	ErrEvicted    = errors.New("the sandbox was evicted, its worker being short of memory")
	ErrInternal   = errors.New("the service failed")
)

// callError is a call that failed: the service answered with an error, or did not answer. Its
// text holds no token.
type callError struct {
	call  string
	code  codes.Code
	text  string
	after time.Duration // the service wants to be asked again after this time; 0: it did not say
}

func (e *callError) Error() string { return e.call + ": " + e.code.String() + ": " + e.text }

// Is says what callers can do about it.
func (e *callError) Is(target error) bool {
	switch e.code {
	case codes.Unauthenticated, codes.PermissionDenied:
		return target == ErrAuth
	case codes.ResourceExhausted:
		return target == ErrQuota
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented, codes.OutOfRange, codes.AlreadyExists:
		return target == ErrRefused
	}
	return target == ErrNoService
}

// failed makes a callError of grpc's error. hide are texts that it must not repeat.
func failed(call string, err error, hide ...string) error {
	s, _ := status.FromError(err)
	e := &callError{call: call, code: s.Code(), text: strings.TrimSpace(s.Message())}
	for _, secret := range hide {
		if secret != "" {
			e.text = strings.ReplaceAll(e.text, secret, "[hidden]")
		}
	}
	if len(e.text) > 2000 {
		e.text = strings.ToValidUTF8(e.text[:2000], "") + " …"
	}
	for _, d := range s.Proto().GetDetails() {
		var p wire.RetryPolicy
		if strings.HasSuffix(d.GetTypeUrl(), "/"+wire.RetryPolicyType) && (wire.Codec{}).Unmarshal(d.GetValue(), &p) == nil && p.After > 0 {
			e.after = time.Duration(min(float64(p.After), 3600) * float64(time.Second))
		}
	}
	return e
}

// codeOf is the code of a call's error; OK where it is none of ours.
func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[*callError](err); ok {
		return e.code
	}
	return codes.OK
}

// passing reports errors that the same call may not meet again.
func passing(err error) bool {
	return slices.Contains([]codes.Code{codes.DeadlineExceeded, codes.Unavailable, codes.Canceled, codes.Internal, codes.Unknown}, codeOf(err))
}

// unopened gives an error of making a box one of backends' errors. Those that another
// try may not meet are losses; refusals are not.
func unopened(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case errors.Is(err, backends.ErrImage), errors.Is(err, backends.ErrLost), errors.Is(err, backends.ErrUnavailable), errors.Is(err, backends.ErrBroken):
		return err
	case errors.Is(err, ErrAuth), errors.Is(err, ErrRefused):
		return fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", backends.ErrLost, err)
}

// unbuilt says why an image could not be had. Refusals and failed builds are the
// image's fault.
func unbuilt(what string, err error) error {
	switch codeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition:
		return fmt.Errorf("%s: %w: %w: %w", what, backends.ErrImage, ErrBuild, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ended says whose doing the end of a sandbox was. The service has its own status
// for everything that it does to a sandbox; what is left is the end of the first process,
// which is slotd. ran says that a command had been started.
func ended(r *wire.Result, ran bool) error {
	lost := func(why error) error {
		if r.Exception == "" {
			return fmt.Errorf("%w: %w", backends.ErrLost, why)
		}
		return fmt.Errorf("%w: %w: %.500s", backends.ErrLost, why, r.Exception)
	}
	switch r.Status {
	case wire.StatusTerminated:
		return lost(ErrTerminated)
	case wire.StatusTimeout:
		return lost(ErrTimeout)
	case wire.StatusIdle:
		return lost(ErrIdle)
	case wire.StatusEvicted:
		return lost(ErrEvicted)
	case wire.StatusFailure:
		if ran {
			return fmt.Errorf("%w: its server ended with exit code %d", backends.ErrBroken, r.ExitCode)
		}
		return lost(fmt.Errorf("its server ended with exit code %d before any command", r.ExitCode))
	case wire.StatusSuccess:
		return lost(errors.New("its server ended, as it does when hermes does not call"))
	}
	return lost(fmt.Errorf("%w (status %d)", ErrInternal, r.Status))
}
