package wire

// chance tells refusals that come at random, at any load, from those that say that the
// server is full. Cutting the limit ends the second kind: a server with its own limit
// refuses nothing below it, and one that counts requests a second refuses far less. So a
// refusal below what a cut has just left, among answers, is suspect; two such cuts in a row
// and the share of refusals is taken as the server's way. From then on answers earn credit
// for as many refusals as twice that share, and only a refusal beyond the credit counts.
//
// A wrong verdict mends itself: on a server that is full the credit is spent at once, and
// the next verdict asks for twice as many cuts.
type chance struct {
	n, lost   int     // answers and refusals of requests begun since the last cut, and the refusals alone
	last      float64 // share of refusals before that cut; 0: not known
	suspects  int     // cuts that changed nothing
	all, gone int     // n and lost over those
	calm      float64 // the bound before the first of them
	doubts    int     // verdicts that refusals belied

	share  float64 // of requests that are refused at any load; 0: none are
	recent float64 // the same of late
	credit float64
}

const (
	mostChance = 0.4 // a larger share of refusals is never put down to chance
	leastSeen  = 4   // answers and refusals that a share is read from
	calmAfter  = 500 // answers without a cut after which the bound is trusted
	mostCredit = 8   // refusals in a row that chance may bring
	mostDoubts = 6
	overChance = 1024 // answers, about, over which the share is forgotten when no refusal comes
)

// begin forgets what was counted before a cut or a probe.
func (c *chance) begin() { c.n, c.lost = 0, 0 }

// answered counts an answer; fresh says that its request was begun after the last cut.
func (c *chance) answered(fresh bool) {
	if fresh {
		c.n++
	}
	if c.share == 0 {
		return
	}
	c.credit = min(mostCredit, c.credit+2*c.share/(1-c.share))
	c.recent -= c.recent / (overChance / 4)
	if c.recent < c.share/50 {
		c.share = 0
	}
}

// refused counts a refusal and reports whether it is one that chance explains.
func (c *chance) refused(fresh bool) bool {
	if fresh {
		c.n++
		c.lost++
	}
	if c.share == 0 {
		return false
	}
	c.recent += (1 - c.recent) / (overChance / 4)
	if c.credit < 1 {
		c.credit = mostCredit / 2
		c.doubts = min(c.doubts+1, mostDoubts)
		return false
	}
	c.credit--
	return true
}

// suspect judges the refusal for which a cut is due, and reports whether the cut is
// better left out. low says that it came below what the cut before had left; bound is
// the most that was thought to be taken.
func (c *chance) suspect(low bool, bound float64) bool {
	if c.n >= calmAfter {
		c.calm = bound
		c.suspects = 0
		c.all = 0
		c.gone = 0
		c.last = 0
		c.doubts /= 2
	}
	share := float64(c.lost) / float64(max(1, c.n))
	if low && c.n >= leastSeen && share <= mostChance && share >= c.last/2 {
		c.suspects++
		c.all, c.gone = c.all+c.n, c.gone+c.lost
	}
	if c.n >= leastSeen {
		c.last = share
	}
	if c.suspects < 2<<c.doubts {
		return false
	}
	c.share = min(mostChance, float64(c.gone)/float64(c.all))
	c.recent, c.credit = c.share, mostCredit
	c.suspects = 0
	c.all = 0
	c.gone = 0
	c.last = 0
	c.begin()
	return true
}
