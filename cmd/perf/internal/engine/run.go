package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/stats"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// Bandwidth is what one direction, or the sum of both, moved. Zero is not
// known: a peer may have no idea of its clock.
type Bandwidth struct {
	BitsPerSecond     float64
	PeakBitsPerSecond float64 // 0: not measured
	MessagesPerSecond float64
}

// SizeResult is the outcome for one message size.
type SizeResult struct {
	Bytes    uint64
	Messages uint64 // of all queue pairs
	BW       *Bandwidth
	Sent     *Bandwidth // bidirectional: this end's part of BW
	Received *Bandwidth // bidirectional: the peer's part, as it reported
	ByPeer   bool       // BW is what the peer reported
	Lat      *stats.Summary
	Buckets  []stats.Bucket
}

// Result is the outcome of a test. Sizes holds what was measured until the end,
// or until the error that Run returned.
type Result struct {
	Setup    Setup
	Sizes    []SizeResult
	Verified bool // the payload was checked, and was right
	Clock    string
	Started  time.Time
	Elapsed  time.Duration
}

// Hooks let the caller follow a test; each may be nil.
type Hooks struct {
	Waiting  func(port int)                // a server listens
	Ready    func(Setup)                   // the queue pairs are connected
	Size     func(SizeResult)              // one size is done
	Progress func(size, done, want uint64) // now and then; want is 0 in a run by time
}

// test is a session at work.
type test struct {
	session
	hooks Hooks
	clk   *tsc.Clock
	mon   *monitor
	count atomic.Uint64
	res   *Result
}

// grace is how long a run goes on after the peer closed its connection: a stock
// write_lat is gone as soon as its own last message has arrived.
const grace = 2 * time.Second

// Run runs one test to its end. cfg must have been resolved; Run completes it.
// The Result is there even with an error, with what was measured before.
func Run(ctx context.Context, cfg *Config, hooks Hooks) (res *Result, err error) {
	t := &test{hooks: hooks, clk: tsc.New(), res: &Result{Started: time.Now()}}
	t.cfg, t.ctx = cfg, ctx
	t.mon = newMonitor(t.clk, cfg.Timeout)
	t.mon.turns = cfg.Metric == wire.Latency
	defer context.AfterFunc(ctx, func() { t.mon.abort(context.Cause(ctx)) })()
	defer func() {
		err = errors.Join(err, t.close())
		t.res.Elapsed = time.Since(t.res.Started)
		t.res.Clock = t.clk.String()
	}()
	meet := t.meetTCP
	if cfg.RDMACM {
		meet = t.meetCM
	}
	ln, err := meet(hooks.Waiting)
	if ln != nil {
		defer func() { err = errors.Join(err, ln.Close()) }()
	}
	if err != nil {
		return t.res, err
	}
	for _, step := range []func() error{t.hello, t.build, t.connect} {
		if err := step(); err != nil {
			return t.res, err
		}
	}
	t.res.Setup = t.setup
	if hooks.Ready != nil {
		hooks.Ready(t.setup)
	}
	// With one processor no idle one is woken when the loop passes through the
	// scheduler, only to find that there is nothing to do; and the collector has
	// no business in a measurement.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if err := t.run(); err != nil {
		return t.res, err
	}
	return t.res, t.verify()
}

// meetTCP opens the device and meets the peer. The listener, if there is one, has
// to be closed in any case.
func (s *session) meetTCP(waiting func(port int)) (ln io.Closer, err error) {
	c := s.cfg
	if err := s.openDevice(); err != nil {
		return nil, err
	}
	if c.Client() {
		s.conn, err = wire.Dial(s.ctx, c.Host, c.Port, c.Timeout, c.Patience)
		return nil, err
	}
	l, err := wire.Listen(s.ctx, c.Bind, c.Port, c.Timeout)
	if err != nil {
		return nil, err
	}
	if waiting != nil {
		waiting(l.Port())
	}
	s.conn, err = l.Accept(s.ctx)
	return l, err
}

// run goes through the steps of the test after the queue pairs are connected.
func (t *test) run() error {
	c := t.cfg
	switch {
	case c.Metric == wire.Latency:
		return t.latency()
	case c.Verb == wire.Send:
		return t.sendBW()
	case c.Bidirectional:
		return t.bothBW()
	case c.Client():
		return t.oneWayBW()
	}
	return t.passiveBW()
}

// oneWayBW is the client of write and read.
func (t *test) oneWayBW() error {
	var last SizeResult
	for _, size := range t.cfg.Sizes() {
		r, err := t.runBW(size)
		if err != nil {
			return err
		}
		last = r
		t.done(r)
	}
	if err := t.conn.Barrier("end of the run", t.own[0]); err != nil {
		return err
	}
	if _, err := t.conn.Reports(t.report(last)); err != nil {
		return err
	}
	return t.conn.Finish(t.own[0])
}

// passiveBW is the server of write and read: its software only waits.
func (t *test) passiveBW() error {
	if err := t.conn.Barrier("wait for the client to finish", t.own[0]); err != nil {
		return err
	}
	rep, err := t.conn.Reports(wire.Report{})
	if err != nil {
		return err
	}
	bw := t.peerBandwidth(rep)
	t.done(SizeResult{Bytes: rep.Size, Messages: rep.Iters, BW: &bw, ByPeer: true})
	return t.conn.Finish(t.own[0])
}

// bothBW is write and read with both ends at work.
func (t *test) bothBW() error {
	for _, size := range t.cfg.Sizes() {
		if err := t.conn.Barrier("start", t.own[0]); err != nil {
			return err
		}
		r, err := t.runBW(size)
		if err != nil {
			return err
		}
		if t.cfg.All {
			if err := t.conn.Barrier("end of a size", t.own[0]); err != nil {
				return err
			}
		}
		if err := t.exchange(&r); err != nil {
			return err
		}
		t.done(r)
	}
	return t.conn.Finish(t.own[0])
}

// sendBW is send, in all roles.
func (t *test) sendBW() error {
	for _, size := range t.cfg.Sizes() {
		t.begin(size)
		if err := t.postReceives(); err != nil {
			return err
		}
		if err := t.conn.Barrier("start", t.own[0]); err != nil {
			return err
		}
		r, err := t.moveBW(size)
		if err != nil {
			return err
		}
		if t.cfg.Bidirectional && t.cfg.Duration == 0 {
			if err := t.exchange(&r); err != nil {
				return err
			}
		}
		t.done(r)
		if t.cfg.All {
			if err := t.conn.Barrier("end of a size", t.own[0]); err != nil {
				return err
			}
		}
	}
	return t.conn.Finish(t.own[0])
}

// latency is all latency tests.
func (t *test) latency() error {
	c := t.cfg
	if c.Verb == wire.Read && !c.Client() {
		// The client works alone; Finish waits for it.
		return t.conn.Finish(t.own[0])
	}
	for _, size := range c.Sizes() {
		t.begin(size)
		if c.Verb == wire.Send {
			if err := t.postReceives(); err != nil {
				return err
			}
			if err := t.conn.Barrier("start", t.own[0]); err != nil {
				return err
			}
		}
		r, err := t.runLat(size)
		if err != nil {
			return err
		}
		t.done(r)
	}
	if c.Verb == wire.Write && !t.conn.Ours() {
		// Here the stock exchange just stops. The peer may still wait for an
		// acknowledgement of its last message, so it leaves first.
		return t.conn.AwaitClose(grace)
	}
	return t.conn.Finish(t.own[0])
}

func (t *test) done(r SizeResult) {
	t.res.Sizes = append(t.res.Sizes, r)
	if t.hooks.Size != nil {
		t.hooks.Size(r)
	}
}

// begin prepares the queue pairs for messages of a size.
func (t *test) begin(size uint64) {
	var flags ibv.SendFlags
	if t.cfg.Verb != wire.Read && t.cfg.Inline > 0 && size <= uint64(t.cfg.Inline) {
		flags |= ibv.Inline
	}
	cycle := uint64(t.terms.PageSize)
	if t.cfg.Metric == wire.Latency {
		cycle = 0 // always the same place
	}
	for _, l := range t.links {
		l.begin(size, cycle, uint64(t.terms.CacheLine), flags)
	}
}

func (t *test) postReceives() error {
	if !t.cfg.receives() {
		return nil
	}
	for _, l := range t.links {
		if err := l.postRecv(t.cfg.RxDepth); err != nil {
			return err
		}
	}
	return nil
}

func (t *test) poller(cq *ibv.CQ, events context.Context) completions {
	if t.cfg.Events {
		return waiting{cq, events}
	}
	return cq
}

// guard runs a loop while it watches the connection to the peer, and reports
// progress. The context ends when the loop is to end.
func (t *test) guard(size, want uint64, loop func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	var timer atomic.Pointer[time.Timer]
	stop := t.conn.Watch(func(err error) {
		timer.Store(time.AfterFunc(grace, func() {
			t.mon.abort(err)
			cancel(err)
		}))
	})
	quiet := t.progress(size, want)
	calm := t.watchdog(cancel)
	t.mon.busy()
	err := loop(ctx) // not locked to its thread: see slice
	quiet()
	calm()
	stop()
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx) // a sleep for completions was ended for a reason
	}
	err = t.disconnected(err)
	if tm := timer.Load(); tm != nil {
		if tm.Stop() && err != nil {
			err = fmt.Errorf("%w; the peer has closed its connection", err)
		}
	}
	return err
}

// progress calls the hook now and then, until the function that it returns.
func (t *test) progress(size, want uint64) (stop func()) {
	if t.hooks.Progress == nil {
		return func() {}
	}
	t.count.Store(0)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				t.hooks.Progress(size, t.count.Load(), want)
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// watchdog ends a run by events that stalls: a loop that sleeps cannot see it.
func (t *test) watchdog(cancel context.CancelCauseFunc) (stop func()) {
	if !t.cfg.Events {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(t.cfg.Timeout)
		defer tick.Stop()
		last := t.count.Load()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				now := t.count.Load()
				if now == last {
					cancel(t.mon.stalled())
				}
				last = now
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// runBW is one size of a one-sided bandwidth test.
func (t *test) runBW(size uint64) (SizeResult, error) {
	t.begin(size)
	return t.moveBW(size)
}

func (t *test) moveBW(size uint64) (SizeResult, error) {
	c := t.cfg
	loop := &bwLoop{monitor: t.mon, links: t.links, depth: uint64(c.TxDepth)}
	if t.hooks.Progress != nil || c.Events {
		loop.count = &t.count
	}
	directions := uint64(0)
	if c.sends() {
		directions++
		loop.sends = t.scq
	}
	if c.receives() {
		directions++
		loop.recvs = t.rcq
		// As perftest: a server that also sends waits for the client's first.
		loop.gated = c.sends() && !c.Client()
	}
	var want uint64
	if c.Duration > 0 {
		loop.sample = newSampler(t.clk, c.Duration, c.Margin)
	} else {
		want = c.Iters * uint64(c.QPs) * directions
		n := c.Iters * uint64(c.QPs)
		if c.sends() && !c.NoPeak && n <= peakMessages {
			loop.stamps = stats.NewStamps(int(n)/c.PostList, int(n), c.PostList)
		}
	}
	err := t.guard(size, want, func(ctx context.Context) error {
		if c.Events && directions == 1 {
			if c.sends() {
				loop.sends = t.poller(t.scq, ctx)
			} else {
				loop.recvs = t.poller(t.rcq, ctx)
			}
		}
		if err := loop.run(); err != nil {
			return err
		}
		if c.Duration > 0 && c.Verb != wire.Send {
			return loop.drain(grace)
		}
		return nil
	})
	if err != nil {
		return SizeResult{}, err
	}
	rate := t.clk.Rate() / 1e9 // seconds per tick
	r := SizeResult{Bytes: size}
	var secs float64
	if s := loop.sample; s != nil {
		r.Messages = s.countTo - s.countFrom
		secs = float64(s.ended-s.begun) * rate
	} else {
		r.Messages = max(loop.sent, loop.got)
		secs = float64(loop.end-loop.begun) * rate
	}
	bw := Bandwidth{}
	if secs > 0 {
		bw.MessagesPerSecond = float64(r.Messages) / secs
		bw.BitsPerSecond = bw.MessagesPerSecond * float64(size) * 8
	}
	if loop.stamps != nil {
		if p := loop.stamps.PeakTicks(); p > 0 {
			bw.PeakBitsPerSecond = float64(size) * 8 / (p * rate)
		}
	}
	r.BW = &bw
	return r, nil
}

// units is bits per second of perftest's unit.
func (t *test) units() float64 {
	if t.cfg.Gbits {
		return 1e9
	}
	return 8 << 20
}

// report puts our part into perftest's words.
func (t *test) report(r SizeResult) wire.Report {
	return wire.Report{
		Size: r.Bytes, Iters: r.Messages,
		PeakBW: r.BW.PeakBitsPerSecond / t.units(), AvgBW: r.BW.BitsPerSecond / t.units(),
		MsgRate: r.BW.MessagesPerSecond / 1e6,
	}
}

// peerBandwidth reads the peer's report. Its unit is not told, but follows from
// the message rate, whose unit is fixed.
func (t *test) peerBandwidth(p wire.Report) Bandwidth {
	known := func(v float64) float64 {
		if v > 0 && !math.IsInf(v, 0) {
			return v
		}
		return 0
	}
	p.MsgRate, p.AvgBW, p.PeakBW = known(p.MsgRate), known(p.AvgBW), known(p.PeakBW)
	bw := Bandwidth{MessagesPerSecond: p.MsgRate * 1e6, BitsPerSecond: p.MsgRate * 1e6 * float64(p.Size) * 8}
	unit := t.units()
	if p.AvgBW > 0 && p.MsgRate > 0 {
		unit = bw.BitsPerSecond / p.AvgBW
	}
	bw.PeakBitsPerSecond = p.PeakBW * unit
	// Large numbers become infinite, which JSON does not have.
	bw.MessagesPerSecond, bw.BitsPerSecond, bw.PeakBitsPerSecond = known(bw.MessagesPerSecond), known(bw.BitsPerSecond), known(bw.PeakBitsPerSecond)
	return bw
}

// exchange adds the peer's part of a bidirectional run.
func (t *test) exchange(r *SizeResult) error {
	rep, err := t.conn.Reports(t.report(*r))
	if err != nil {
		return err
	}
	if rep.Size != r.Bytes {
		return fmt.Errorf("the peer reports messages of %d bytes, here they had %d: give both ends the same -s", rep.Size, r.Bytes)
	}
	own, peer := *r.BW, t.peerBandwidth(rep)
	r.Sent, r.Received = &own, &peer
	r.BW = &Bandwidth{}
	if peer.MessagesPerSecond > 0 {
		r.BW.BitsPerSecond = own.BitsPerSecond + peer.BitsPerSecond
		r.BW.MessagesPerSecond = own.MessagesPerSecond + peer.MessagesPerSecond
	}
	if own.PeakBitsPerSecond > 0 && peer.PeakBitsPerSecond > 0 {
		r.BW.PeakBitsPerSecond = own.PeakBitsPerSecond + peer.PeakBitsPerSecond
	}
	return nil
}

func (t *test) runLat(size uint64) (SizeResult, error) {
	c := t.cfg
	l := t.links[0]
	l.mod, l.unsig = 1, 1 // every message is waited for
	loop := &latLoop{
		monitor: t.mon, link: l, sends: t.scq, recvs: t.rcq, server: !c.Client(),
		toCQE: c.LatencyDef == ToCompletion, half: 0.5, rate: t.clk.Rate(),
	}
	if c.Verb == wire.Read {
		loop.half = 1
	} else if !loop.toCQE {
		loop.lag = 1
	}
	if t.hooks.Progress != nil || c.Events {
		loop.count = &t.count
	}
	if c.Duration > 0 {
		loop.sample = newSampler(t.clk, c.Duration, c.Margin)
		loop.hist = stats.NewLatency()
	} else {
		loop.posts = make([]int64, c.Iters)
		if loop.toCQE {
			loop.cqes = make([]int64, c.Iters)
		}
		// Touch it all now, not in the middle of the run.
		for i := range loop.posts {
			loop.posts[i] = 1
		}
		for i := range loop.cqes {
			loop.cqes[i] = 1
		}
	}
	err := t.guard(size, c.Iters, func(ctx context.Context) error {
		switch c.Verb {
		case wire.Read:
			loop.sends = t.poller(t.scq, ctx)
			return loop.read()
		case wire.Write:
			loop.own = t.sendArea(0)[:size]
			loop.mem = t.recvArea(0)[:size]
			loop.arrival = watchByte(loop.mem, len(loop.mem)-1)
			return loop.write()
		}
		loop.sends = t.poller(t.scq, ctx)
		loop.recvs = t.poller(t.rcq, ctx)
		return loop.pingpong()
	})
	if err != nil {
		return SizeResult{}, err
	}
	if c.Verb == wire.Write {
		// The number of the last message is in the way of the next size.
		fillPattern(t.sendArea(0), 0)
	}
	loop.rate = t.clk.Rate()
	h := loop.collect()
	sum := h.Summary()
	return SizeResult{Bytes: size, Messages: l.done, Lat: &sum, Buckets: h.Buckets()}, nil
}

// verify compares what arrived here with what was sent. Everything has come to
// rest: it is after the last meeting with the peer.
func (t *test) verify() error {
	c := t.cfg
	if !c.Verify {
		return nil
	}
	if !t.terms.Ours {
		return errors.New("payload check (--verify): the peer is a stock perftest, which sends no known payload")
	}
	into := !c.Client() || c.Bidirectional || c.Metric == wire.Latency
	area := t.recvArea
	if c.Verb == wire.Read {
		into = c.Client() || c.Bidirectional
		area = t.sendArea
	}
	if !into {
		return nil
	}
	n := c.Iters
	if c.Duration > 0 {
		n = 1 // how many there were is the peer's to know
	}
	cycle, skip := uint64(t.terms.PageSize), -1
	if c.Metric == wire.Latency {
		cycle = 0
		if c.Verb == wire.Write {
			skip = int(c.Size) - 1
		}
	}
	for i := range t.qps {
		if err := checkPattern(area(i), i, c.Size, cycle, uint64(t.terms.CacheLine), n, skip); err != nil {
			return err
		}
	}
	t.res.Verified = true
	return nil
}
