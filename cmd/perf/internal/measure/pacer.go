package measure

import (
	"time"

	"golang.org/x/sys/cpu"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
)

// Pacer lets messages out at a rate, in bursts.
type Pacer struct {
	_     cpu.CacheLinePad // each loop has its own
	every int64            // ticks from one burst to the next
	slack int64            // ticks by which a late burst may be made up for
	burst uint64           // messages
	left  uint64           // of this burst
	next  int64            // ticks: when the next one begins; 0: not yet known
	_     cpu.CacheLinePad
}

// NewPacer returns a pacer of rate messages per second. No list that is posted is longer than a burst.
func NewPacer(clk *tsc.Clock, rate float64, burst int) *Pacer {
	every := clk.Ticks(time.Duration(float64(burst) / rate * float64(time.Second)))
	return &Pacer{every: max(every, 1), slack: clk.Ticks(10 * time.Millisecond), burst: uint64(burst)}
}

// Admit reports whether n more messages may go now, and counts them if so.
func (p *Pacer) Admit(now int64, n uint64) bool {
	if p.left < n {
		if p.next == 0 {
			p.next = now + p.every // the first burst has its time too, or n messages would be faster by n/(n-burst)
		}
		if now < p.next {
			return false
		}
		p.left += p.burst
		if now-p.next > p.every+p.slack {
			p.next = now // what was missed for long is not made up for
		}
		p.next += p.every
	}
	p.left -= n
	return true
}
