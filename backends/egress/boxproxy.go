package egress

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// BoxProxy is the proxy of one box.
type BoxProxy struct {
	proxy *Proxy
	box   string
	ctx   context.Context // of every connection; ends with Close
	stop  context.CancelFunc
	web   *http.Server
	ended sync.WaitGroup

	left    atomic.Int64 // bytes
	busy    atomic.Int64 // requests under way
	allowed atomic.Int64
	refused atomic.Int64

	mu     sync.Mutex
	shut   bool
	open   map[*guest]bool
	logged map[string]bool // what the log has of this box
	guest  sync.WaitGroup  // of open
}

// maxLogged bounds the lines of the log that one box can cause.
const maxLogged = 256

// Serve answers on l, which lies inside the box, until Close. It takes l over.
func (p *Proxy) Serve(box string, l net.Listener) *BoxProxy {
	d := &BoxProxy{proxy: p, box: box, open: map[*guest]bool{}, logged: map[string]bool{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.left.Store(p.conf.Bytes)
	d.web = &http.Server{
		Handler:           http.HandlerFunc(d.serve),
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    32 << 10,

		DisableGeneralOptionsHandler: true,
		ErrorLog:                     stdlog.New(io.Discard, "", 0), // of the box's mistakes
		BaseContext:                  func(net.Listener) context.Context { return d.ctx },
	}
	// One request a connection, on both sides: nothing that a box sends can be taken for
	// the beginning of another request.
	d.web.SetKeepAlivesEnabled(false)
	d.ended.Go(func() {
		d.web.Serve(&gate{Listener: l, proxy: d, places: make(chan struct{}, 2*p.conf.Connections), bucket: newBucket(p.conf.Rate)})
	})
	return d
}

// Close cuts every connection of the box and waits until nothing of the proxy is left.
func (d *BoxProxy) Close() {
	d.mu.Lock()
	if d.shut {
		d.mu.Unlock()
		return
	}
	d.shut = true
	for g := range d.open {
		g.Conn.Close()
	}
	d.mu.Unlock()
	d.stop()
	d.web.Close()
	d.ended.Wait()
	d.guest.Wait()
	if a, r := d.allowed.Load(), d.refused.Load(); a+r > 0 {
		d.proxy.log.write(line{Box: d.box, Event: "close", Allowed: a, Refused: r, Bytes: d.proxy.conf.Bytes - d.left.Load()})
	}
}

// tell counts an outcome and writes it to the log, the same one once.
func (d *BoxProxy) tell(event, target, reason string) {
	of, all := &d.allowed, &d.proxy.books.allowed
	if event == "refuse" {
		of, all = &d.refused, &d.proxy.books.refused
	}
	of.Add(1)
	all.Add(1)
	key := event + " " + target + " " + reason
	d.mu.Lock()
	known := d.logged[key] || len(d.logged) >= maxLogged
	if !known {
		d.logged[key] = true
	}
	d.mu.Unlock()
	if !known {
		d.proxy.log.write(line{Box: d.box, Event: event, Target: target, Reason: reason})
	}
}

// gate is the listener of a box's proxy. A box that connects too often or too much waits.
type gate struct {
	net.Listener
	proxy  *BoxProxy
	places chan struct{}
	bucket *bucket
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	if err := g.bucket.take(g.proxy.ctx); err != nil {
		return nil, err
	}
	select {
	case g.places <- struct{}{}:
	case <-g.proxy.ctx.Done():
		return nil, g.proxy.ctx.Err()
	}
	c, err := g.Listener.Accept()
	if err != nil {
		<-g.places
		return nil, err
	}
	x := &guest{Conn: c, gate: g}
	d := g.proxy
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		c.Close()
		<-g.places
		return nil, net.ErrClosed
	}
	d.open[x] = true
	d.guest.Add(1)
	return x, nil
}

// guest is a connection from the box.
type guest struct {
	net.Conn
	gate   *gate
	joined atomic.Bool // with the other end of a tunnel
	once   sync.Once
}

// linger ends our direction and reads on for a moment: a connection that is closed with
// something unread is reset, and the box would not see why it was refused.
func (x *guest) linger() {
	if x.joined.Load() || x.CloseWrite() != nil {
		return
	}
	enough := time.AfterFunc(250*time.Millisecond, func() { x.Conn.Close() }) // not a deadline: the server changes those
	defer enough.Stop()
	io.CopyN(io.Discard, x.Conn, 256<<10)
}

// Close implements net.Conn.
func (x *guest) Close() error {
	err := net.ErrClosed
	x.once.Do(func() {
		x.linger()
		err = x.Conn.Close()
		if errors.Is(err, net.ErrClosed) { // Close was quicker
			err = nil
		}
		d := x.gate.proxy
		d.mu.Lock()
		delete(d.open, x)
		d.mu.Unlock()
		<-x.gate.places
		d.guest.Done()
	})
	return err
}

// CloseWrite ends one direction.
func (x *guest) CloseWrite() error {
	if half, ok := x.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// bucket lets so many pass in a second, and twice as many at once.
type bucket struct {
	rate   float64 // a second
	tokens float64
	last   time.Time
}

func newBucket(rate int) *bucket {
	return &bucket{rate: float64(rate), tokens: 2 * float64(rate), last: time.Now()}
}

// take waits for its turn. Only the accepting goroutine calls it.
func (b *bucket) take(ctx context.Context) error {
	now := time.Now()
	b.tokens = min(2*b.rate, b.tokens+b.rate*now.Sub(b.last).Seconds())
	b.last = now
	b.tokens--
	if b.tokens >= 0 {
		return nil
	}
	t := time.NewTimer(time.Duration(-b.tokens / b.rate * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
