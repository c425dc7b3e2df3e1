package wire

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Watch reads /metrics of every replica now and then every so often, and reports
// whether one of them has the length of its queue there: the queues of vLLM, SGLang and
// llama.cpp take everything, so that only their length says that they are full. Where
// none has, nothing is read again. It is called before the first request.
func (c *Client) Watch(ctx context.Context, every time.Duration) bool {
	if c.opt.Replay != nil || every <= 0 {
		return false
	}
	seen := map[*replica]float64{}
	if c.look(ctx, seen); len(seen) == 0 {
		return false
	}
	ctx, stop := context.WithCancel(context.Background())
	before := c.stop
	c.stop = func() { before(); stop() }
	c.done.Go(func() { c.poll(ctx, every, seen) })
	return true
}

// poll looks at the replicas until ctx ends.
func (c *Client) poll(ctx context.Context, every time.Duration, seen map[*replica]float64) {
	for {
		pause := every
		for _, r := range c.fleet.replicas() {
			if r.limit.rising() {
				pause = every / 4 // the way up from a careful start is short
			}
		}
		if sleep(ctx, pause) != nil {
			return
		}
		c.look(ctx, seen)
	}
}

// look reads the page of every replica once. seen are the preempted requests so far.
func (c *Client) look(ctx context.Context, seen map[*replica]float64) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range c.fleet.replicas() {
		wg.Go(func() {
			gctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			raw, err := c.get(gctx, r, "//metrics")
			queue, evicted, ok := readMetrics(raw)
			if err != nil || !ok { // a server without metrics is no fault
				r.limit.unwatched()
				return
			}
			mu.Lock()
			before, known := seen[r]
			seen[r] = evicted
			mu.Unlock()
			r.limit.observe(queue, known && evicted > before)
		})
	}
	wg.Wait()
}

// readMetrics sums, over all engines, the waiting requests and the preempted ones.
func readMetrics(raw []byte) (queue, evicted float64, ok bool) {
	for sc := bufio.NewScanner(bytes.NewReader(raw)); sc.Scan(); {
		line := sc.Text()
		name := line[:max(0, strings.IndexAny(line, "{ "))]
		var sum *float64
		switch name {
		case "vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred":
			sum, ok = &queue, true
		case "vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_reqs_total", "sglang:num_retracted_requests_total":
			sum = &evicted
		default:
			continue
		}
		rest := line[strings.LastIndexByte(line, '}')+1:]
		if rest == line {
			rest = line[len(name):]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(fields[0], 64); err == nil {
			*sum += v
		}
	}
	return queue, evicted, ok
}

func validText(b []byte) bool { return utf8.Valid(b) }
