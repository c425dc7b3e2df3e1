package backendtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Relay is between a driver and a service on a stream, and makes connections go wrong:
// they are refused, cut in the middle of what is said, or held up. The faults are drawn
// with a seed. A Relay is safe for concurrent use.
type Relay struct {
	l  net.Listener
	to string

	mu       sync.Mutex
	rand     *rand.Rand
	share    float64
	injected map[string]int
	open     map[net.Conn]bool
	all      sync.WaitGroup
}

// NewRelay listens on the loopback and passes connections on to the TCP address to, as
// they are until Begin.
func NewRelay(to string, seed uint64) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{l: l, to: to, rand: rand.New(rand.NewPCG(seed, 13)), injected: map[string]int{}, open: map[net.Conn]bool{}}
	r.all.Go(r.accept)
	return r, nil
}

// Address is where it listens.
func (r *Relay) Address() string { return r.l.Addr().String() }

// Begin makes connections go wrong: with the given probability at each piece of what is
// said, and with ten times that at their beginning.
func (r *Relay) Begin(share float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share = share
}

// Heal ends the faults.
func (r *Relay) Heal() { r.Begin(0) }

// Injected counts the faults so far.
func (r *Relay) Injected() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.injected {
		n += k
	}
	return n
}

// Kinds tells how many faults of each kind there were.
func (r *Relay) Kinds() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.injected)
}

// Close ends it with all connections.
func (r *Relay) Close() {
	r.l.Close()
	r.mu.Lock()
	for c := range r.open {
		c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

// draw decides what goes wrong, and how late something is.
func (r *Relay) draw(times float64, kinds ...string) (string, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rand.Float64() >= r.share*times {
		return "", 0
	}
	kind := kinds[r.rand.IntN(len(kinds))]
	r.injected[kind]++
	return kind, time.Duration(r.rand.Int64N(int64(mostLate)))
}

func (r *Relay) accept() {
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		if kind, _ := r.draw(10, "refused"); kind != "" {
			c.Close()
			continue
		}
		s, err := net.Dial("tcp", r.to)
		if err != nil {
			c.Close()
			continue
		}
		r.mu.Lock()
		r.open[c], r.open[s] = true, true
		r.mu.Unlock()
		var both sync.WaitGroup
		both.Go(func() { r.copy(s, c) })
		both.Go(func() { r.copy(c, s) })
		r.all.Go(func() {
			both.Wait()
			r.mu.Lock()
			delete(r.open, c)
			delete(r.open, s)
			r.mu.Unlock()
		})
	}
}

// copy passes one direction on. Its end ends both.
func (r *Relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		kind, late := r.draw(1, "cut", "cut in the middle", "slow")
		switch kind {
		case "cut":
			return
		case "cut in the middle":
			to.Write(buf[:n/2])
			return
		case "slow":
			<-time.After(late)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
