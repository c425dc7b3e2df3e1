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

// poll reads /metrics of every replica until ctx ends: the queues of vLLM and SGLang
// take everything, so that only their length says that they are full.
func (c *Client) poll(ctx context.Context) {
	tick := time.NewTicker(c.opt.Metrics)
	defer tick.Stop()
	seen := map[*replica]float64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, r := range c.fleet.replicas() {
			wg.Go(func() {
				gctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				raw, err := c.Get(gctx, r.url.String(), "//metrics")
				if err != nil {
					return // a server without metrics is no fault
				}
				queue, evicted, ok := readMetrics(raw)
				if !ok {
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
}

// readMetrics sums, over all engines, the waiting requests and the preempted ones.
func readMetrics(raw []byte) (queue, evicted float64, ok bool) {
	for sc := bufio.NewScanner(bytes.NewReader(raw)); sc.Scan(); {
		line := sc.Text()
		name := line[:max(0, strings.IndexAny(line, "{ "))]
		var sum *float64
		switch name {
		case "vllm:num_requests_waiting", "sglang:num_queue_reqs":
			sum, ok = &queue, true
		case "vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_reqs_total":
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
