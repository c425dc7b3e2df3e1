package plainlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/internal/plainlog"
)

func TestSentences(t *testing.T) {
	tests := []struct {
		name, want string
		log        func(*slog.Logger)
	}{
		{"message alone", "warning: memory is short\n", func(l *slog.Logger) { l.Warn("memory is short") }},
		{"cause behind a colon, values in brackets", "warning: close the box: exit 3 (backend docker, in flight 4)\n",
			func(l *slog.Logger) {
				l.Warn("close the box", "backend", "docker", "err", errors.New("exit 3"), "in_flight", 4)
			}},
		{"an error", "error: cannot go on: disk full\n", func(l *slog.Logger) { l.Error("cannot go on", "reason", "disk full") }},
		{"several lines become one", "warning: compile: a b\n", func(l *slog.Logger) { l.Warn("compile", "err", "a\n  b") }},
		{"a map is no Go syntax", "warning: prices (of a=1 b=2)\n",
			func(l *slog.Logger) { l.Warn("prices", slog.Group("of", "a", 1, "b", 2)) }},
		{"groups and attributes of the logger", "warning: x (run r1, box.id 7)\n",
			func(l *slog.Logger) { l.With("run", "r1").WithGroup("box").Warn("x", "id", 7) }},
		{"what would steer a terminal", "warning: x: a b␛[2J<U+202E>� (k\u2400 v)\n",
			func(l *slog.Logger) { l.Warn("x", "err", "a\r\nb\x1b[2J\u202e\x9b", "k\x00", "v") }},
		{"a line is not too long", "warning: x: " + strings.Repeat("é", 2042) + "…\n",
			func(l *slog.Logger) { l.Warn("x", "err", strings.Repeat("é", 1<<20)) }},
		{"below the level", "", func(l *slog.Logger) { l.Info("nothing") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			tt.log(slog.New(plainlog.New(&b, slog.LevelWarn)))
			if b.String() != tt.want {
				t.Errorf("got  %q\nwant %q", b.String(), tt.want)
			}
		})
	}
}

// TestAnOutageIsOneLine sends the failures of a server that is down for 70 seconds.
func TestAnOutageIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		h := plainlog.New(&b, slog.LevelWarn)
		log := slog.New(h)
		for i := range 70 {
			log.Warn("sent again", "err", fmt.Errorf("dial tcp 127.0.0.1:8000: connection %d refused", i), "attempt", i)
			time.Sleep(time.Second)
		}
		log.Warn("sent again", "err", errors.New("no such host")) // another cause
		if err := h.Flush(); err != nil {
			t.Fatal(err)
		}
		want := `warning: sent again: dial tcp 127.0.0.1:8000: connection 0 refused (attempt 0)
warning: sent again: dial tcp 127.0.0.1:8000: connection 30 refused (attempt 30) [and 29 more like this]
warning: sent again: dial tcp 127.0.0.1:8000: connection 60 refused (attempt 60) [and 29 more like this]
warning: sent again: no such host
warning: sent again: dial tcp 127.0.0.1:8000: connection 69 refused (attempt 69) [and 8 more like this]
`
		if b.String() != want {
			t.Errorf("got\n%s\nwant\n%s", b.String(), want)
		}
		b.Reset()
		if err := h.Flush(); err != nil || b.Len() > 0 {
			t.Errorf("a second Flush: %v, %q", err, b.String())
		}
	})
}

// TestCountsBalance holds that each record is a line or is counted, whatever the order.
func TestCountsBalance(t *testing.T) {
	var b bytes.Buffer
	h := plainlog.New(&b, slog.LevelWarn)
	log := slog.New(h)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 100 {
				log.Warn(strings.Repeat("x", 1+(w*100+i)%400)) // more kinds than are counted
			}
		})
	}
	wg.Wait()
	if err := h.Flush(); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(b.String()) {
		sum++
		if _, more, ok := strings.Cut(line, "[and "); ok {
			var n int
			if _, err := fmt.Sscanf(more, "%d more", &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			sum += n
		}
	}
	if sum != 800 {
		t.Errorf("%d of 800 records are accounted for", sum)
	}
}

// TestOldKindsMakeRoom fills the table with causes that come once, and then has an outage.
func TestOldKindsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(plainlog.New(&b, slog.LevelWarn))
		for i := range 256 {
			log.Warn(strings.Repeat("x", 1+i))
		}
		log.Warn("x")
		time.Sleep(plainlog.Interval)
		b.Reset()
		for range 3 {
			log.Warn("down")
		}
		if want := "warning: x\nwarning: down\n"; b.String() != want {
			t.Errorf("got  %q\nwant %q", b.String(), want)
		}
	})
}

func TestEveryRecordForThoseWhoAskForMore(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(plainlog.New(&b, slog.LevelDebug))
	for range 3 {
		log.Warn("again")
		log.Info("fine")
		log.Debug("detail")
	}
	if want := strings.Repeat("warning: again\nfine\ndebug: detail\n", 3); b.String() != want {
		t.Errorf("got %q", b.String())
	}
}
