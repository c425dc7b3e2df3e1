package wire

import (
	"math"
	"time"
)

// news is what the requests of one replica tell about each other: whether it answers
// others while one of them fails.
type news struct {
	answers int       // so far
	last    time.Time // when the newest came
	failing int       // requests that failed since, each counted once
	share   float64   // answers among attempts, of late
}

// The weight of one attempt in the share; how old an answer may be to say that the
// replica still answers, where only one request is left to tell.
const (
	newsWeight = 1.0 / 32
	newsAge    = 30 * time.Second
	leastCrowd = 4    // requests that may be in flight for one to be judged by the others
	likely     = 0.07 // more failures in a row than this are no chance: the replica is down
)

func (n *news) answered(now time.Time) {
	n.answers++
	n.last, n.failing = now, 0
	n.share += (1 - n.share) * newsWeight
}

// blame is what a failure is put down to.
type blame struct {
	own   bool    // the replica answers others
	share float64 // of attempts that it answers
}

// failed judges a failure of the request that t counts the tries of. A request that fails
// again while nothing else happens is no further news: the last one of a run must not make
// its replica look as if it were down. Without a crowd there are no others to go by.
func (n *news) failed(t *tries, e *Error, crowd bool, now time.Time) blame {
	seen := t.all > 1 && n.answers == t.news // since its failure before
	if !seen {
		n.failing++
		n.share -= n.share * newsWeight
	}
	own := n.answers > 0 && !e.refused && (t.all > 1 && !seen || crowd && now.Sub(n.last) < newsAge) &&
		math.Pow(1-n.share, float64(n.failing-1)) > likely
	t.news = n.answers
	if own {
		t.own++
	}
	return blame{own, n.share}
}

// pace is the longest wait in units of the first: 1 where nearly all are answered, 2 where
// 70 in a hundred are, 4 at a half, 100 at a tenth.
func (b blame) pace() float64 { return 1 / max(b.share*b.share, 1e-4) }

// hopeless reports whether so many failures of one request are more than the replica's
// share of failures explains.
func (b blame) hopeless(failures int) bool {
	return math.Pow(max(0.1, 1-b.share), float64(failures)) < 1e-6
}
