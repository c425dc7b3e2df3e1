package modaltest

import (
	"sync"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"hermes/backends/modal/wire"
)

// fault is what happens to a call.
type fault struct {
	err  error
	done bool // after the work was done
}

// faults are those that are planned.
type faults struct {
	mu     sync.Mutex
	next   map[string][]fault
	some   func(call string) error // drawn for every call
	piece  int64                   // bytes after which a stream of output breaks; 0: none does
	broken chan struct{}           // closed to break every stream of output
}

// draw takes the next fault of a call: one before the work, or one after it.
func (f *faults) draw(call string) (after, before error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if list := f.next[call]; len(list) > 0 {
		f.next[call] = list[1:]
		if list[0].done {
			return list[0].err, nil
		}
		return nil, list[0].err
	}
	if f.some != nil {
		return nil, f.some(call)
	}
	return nil, nil
}

// streams tells when and after how many bytes a stream of output breaks.
func (f *faults) streams() (broken <-chan struct{}, piece int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken, f.piece
}

// Fail makes the next n calls of a name fail before anything is done.
func (f *Fake) Fail(call string, n int, code codes.Code) {
	f.plan(call, n, fault{err: status.Error(code, "injected")})
}

// Lose loses the answers of the next n calls of a name, after the work was done.
func (f *Fake) Lose(call string, n int, code codes.Code) {
	f.plan(call, n, fault{err: status.Error(code, "injected: the answer is lost"), done: true})
}

func (f *Fake) plan(call string, n int, x fault) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	for range n {
		f.faults.next[call] = append(f.faults.next[call], x)
	}
}

// FailSome has draw decide about every call that no other fault is planned for: an error
// of it fails the call. nil ends that.
func (f *Fake) FailSome(draw func(call string) error) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.some = draw
}

// Break breaks every stream of output once.
func (f *Fake) Break() {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	close(f.faults.broken)
	f.faults.broken = make(chan struct{})
}

// BreakAfter breaks every stream of output after so many bytes; 0: none.
func (f *Fake) BreakAfter(bytes int64) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.piece = bytes
}

// exhausted is the service's answer to who has too much already.
func exhausted(text string, after time.Duration) error {
	raw, err := wire.Codec{}.Marshal(&wire.RetryPolicy{After: float32(after.Seconds())})
	if err != nil {
		return err
	}
	return status.FromProto(&spb.Status{Code: int32(codes.ResourceExhausted), Message: text,
		Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/" + wire.RetryPolicyType, Value: raw}}}).Err()
}
