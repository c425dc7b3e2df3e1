package modaltest

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	err   error
	done  bool          // after the work was done
	twice bool          // the work is done again, as for a client that heard no answer; the second answer counts
	torn  bool          // one half of the answer comes
	late  time.Duration // it is answered so much later
}

// faults are those that are planned.
type faults struct {
	mu     sync.Mutex
	next   map[string][]fault
	some   func(call string) error // drawn for every call
	piece  int64                   // bytes after which a stream of output breaks; 0: none does
	broken chan struct{}           // closed to break every stream of output

	rand     *rand.Rand
	share    float64 // of calls with a fault that rand chooses
	injected map[string]int
}

// draw takes the next fault of a call.
func (f *faults) draw(call string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if list := f.next[call]; len(list) > 0 {
		f.next[call] = list[1:]
		return list[0]
	}
	if f.some != nil {
		return fault{err: f.some(call)}
	}
	if f.rand == nil || f.rand.Float64() >= f.share {
		return fault{}
	}
	return f.choose(call)
}

// mostLate bounds how much later than it could a chosen fault lets a call be answered.
const mostLate = 200 * time.Millisecond

// choose makes a fault. It is locked.
func (f *faults) choose(call string) fault {
	kinds := []string{"refused", "slow", "half answer", "no answer", "quota"}
	if call != wire.TaskExecStdioRead && call != wire.ImageJoinStreaming {
		kinds = append(kinds, "twice")
	}
	kind := kinds[f.rand.IntN(len(kinds))]
	f.injected[call+": "+kind]++
	passing := []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled, codes.DeadlineExceeded}
	err := status.Error(passing[f.rand.IntN(len(passing))], "injected: "+kind)
	switch kind {
	case "slow":
		return fault{late: time.Duration(f.rand.Int64N(int64(mostLate)))}
	case "half answer":
		return fault{torn: true}
	case "no answer":
		return fault{err: err, done: true}
	case "twice":
		return fault{twice: true}
	case "quota":
		return fault{err: exhausted("injected: too much for this account", 10*time.Millisecond)}
	}
	return fault{err: err}
}

// wait lets a late answer wait.
func (f fault) wait(ctx context.Context) error {
	if f.late == 0 {
		return nil
	}
	t := time.NewTimer(f.late)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
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

// Begin makes calls go wrong with the given probability, drawn with the seed: they are
// refused, answered late, to one half or not at all, carried out twice, or turned away
// because of a quota. Streams of output end early instead of being answered to one half.
func (f *Fake) Begin(share float64, seed uint64) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.share, f.faults.rand = share, rand.New(rand.NewPCG(seed, 17))
	if f.faults.injected == nil {
		f.faults.injected = map[string]int{}
	}
}

// Heal ends the faults that Begin began.
func (f *Fake) Heal() {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.rand = nil
}

// Injected counts the faults that Begin began.
func (f *Fake) Injected() (n int) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	for _, k := range f.faults.injected {
		n += k
	}
	return n
}

// Kinds tells how many of them there were of each kind at each call.
func (f *Fake) Kinds() string {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	return fmt.Sprint(f.faults.injected)
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
