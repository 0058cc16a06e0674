package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
	"github.com/pureverbs/pureverbs/ibv"
)

// Result is the outcome of a test. Sizes holds what was measured until the end,
// or until the error that Run returned.
type Result struct {
	Setup    session.Setup
	Rails    []Rail // if there are several; Setup is the first one's
	Sizes    []measure.Size
	Parts    []measure.Interval // of the size that failed
	Partial  *measure.Size      // what moved of that size before it failed, if enough did for a figure
	Used     measure.Usage
	Verified bool // the payload was checked, and was right
	Ahead    int  // messages at the beginning of each size that are not in its latencies
	Clock    string
	Started  time.Time
	Elapsed  time.Duration
}

// Hooks let the caller follow a test; each may be nil.
type Hooks struct {
	Waiting  func(port int)               // a server listens
	Strange  func(addr string, why error) // something came there that was no client
	Ready    func(session.Setup)          // the queue pairs are connected
	Rails    func([]Rail)                 // of several, those of each that could
	Size     func(measure.Size)           // one size is done
	Interval func(size uint64, i measure.Interval)
	Progress func(Progress) // now and then
}

// Progress is how far a size is.
type Progress struct {
	Size, Done uint64
	Want       uint64        // messages; 0 in a run by time
	Left       time.Duration // of a run by time
}

// run is a session at work.
type run struct {
	*session.Session
	plan    plan.Plan
	asked   context.Context // ends when the run is interrupted
	ctx     context.Context
	hooks   Hooks
	clk     *tsc.Clock
	links   []*loop.Link
	credits []loop.Credit // of the links, if messages need credits
	threads []*thread
	rails   *rails          // nil: there is one
	gauge   *measure.Gauge  // of a size
	window  *measure.Window // of the threads
	ran     time.Duration   // how long the last loop took
	tick    float64         // seconds; see perTick
	res     *Result
}

// patience is how late the peer may be to a meeting. An end that works at the same time may need as long again as this
// end did.
func (r *run) patience() time.Duration {
	if r.plan.Load.Bidirectional {
		return r.plan.Peer.Timeout + r.ran
	}
	return r.plan.Peer.Timeout
}

// grace is how long a run goes on after the peer closed its connection: a stock
// write_lat is gone as soon as its own last message has arrived.
const grace = 2 * time.Second

// done takes the result of a size.
func (r *run) done(s measure.Size) {
	s.Used = r.gauge.Lap()
	r.res.Sizes = append(r.res.Sizes, s)
	if r.hooks.Size != nil {
		r.hooks.Size(s)
	}
}

// Rail is one of several connections: its own device, or its own server.
type Rail struct {
	Name  string
	Setup session.Setup
	Err   error // why it failed, or nil
}

// rails are tests that run side by side. They begin each size together.
type rails struct {
	window measure.Window // of all loops

	mu      sync.Mutex
	members int // that have not ended
	waiting int
	round   chan struct{} // closed when all wait
	open    int           // that may still connect
	ready   []Rail
	tell    func([]Rail) // what connected, once all have or have failed
}

// thread has the objects of one loop: CQs, queue pairs, and the monitor that ends it.
type thread struct {
	_     cpu.CacheLinePad // another thread's may be next to it
	mon   *loop.Monitor
	sends *ibv.CQ
	recvs *ibv.CQ
	first int // its first queue pair
	links []*loop.Link
	count measure.Counter // messages so far, for others to read
	over  atomic.Bool
	_     cpu.CacheLinePad
}

// errOver is how an endless run ends without having failed.
var errOver = errors.New("an endless run is over")
