package credit

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

var (
	modelSeed = flag.Uint64("model.seed", 0, "seed of the only run of the model; 0 runs it several times")
	modelRuns = flag.Int("model.runs", 300, "how often the model runs")
)

// packet is a frame under way.
type packet struct {
	data, lower, lowered bool
	told                 bool // limit has a meaning
	seq, limit           uint32
}

// end is an end of a connection: it sends and receives.
type end struct {
	send Sender
	recv Receiver
	out  []packet // to the other end
	more int      // frames that wait to be sent
	kept uint32   // frames that were received and not taken
}

// model is a connection whose frames are delayed arbitrarily, and the blocks of both ends.
type model struct {
	*rand.Rand
	ends    [2]end
	spare   int  // blocks that may be granted
	only    bool // only LIMIT frames carry the limit, as for frames about leases
	control bool // the window is fixed, and frames are taken at once
	slow    bool // windows shrink to the least, and frames are taken one by one
	sent    int
	free    int // most frames without a credit under way
}

// The receiver of these frames has a place for so many more than it has promised: rdma.strictBlocks.
const (
	mostFree        = 3 + 2 // LIMITs; a lower one, and the reply to one
	mostFreeControl = 2
)

// newModel returns one whose frames begin at a number.
func newModel(rnd *rand.Rand, from uint32, control bool) *model {
	m := &model{Rand: rnd, spare: rnd.IntN(140), control: control, only: control, slow: rnd.IntN(2) == 0}
	window := uint32(wire.MinLimit)
	ahead := uint32(wire.MaxWindow)
	if control {
		window, ahead = wire.ControlWindow, wire.ControlWindow
	}
	for i := range m.ends {
		e := &m.ends[i]
		e.send, e.recv = NewSender(window, ahead), NewReceiver(window)
		e.send.Sent += from
		e.send.Limit += from
		e.recv.Received += from
		e.recv.consumed += from
		e.recv.Told += from
	}
	return m
}

// pump sends the next frame of an end, if one is due, as a connection does. Data may be held up.
func (m *model) pump(e *end, data bool) bool {
	var p packet
	switch {
	case e.recv.MustLower():
		e.recv.Lower()
		p.lower = true
	case e.send.Answer:
		e.send.Answered()
		p.lowered = true
	case data && e.more > 0 && e.send.Left() > 0:
		p.data, p.seq = true, e.send.Next()
		e.more--
		m.sent++
	case e.recv.Due():
	default:
		return false
	}
	if p.told = !p.data || !m.only; p.told {
		p.limit = e.recv.Tell()
	}
	if !p.data {
		p.seq = e.send.Sent
	}
	e.out = append(e.out, p)
	return true
}

// deliver has an end receive the next frame of the other.
func (m *model) deliver(e, from *end) error {
	p := from.out[0]
	from.out = from.out[1:]
	if p.seq != e.recv.Received {
		return fmt.Errorf("frame %d, want %d", p.seq, e.recv.Received)
	}
	if p.told {
		if want := e.send.Check(p.limit, p.lower); want != "" {
			return fmt.Errorf("limit %d, want %s", p.limit, want)
		}
		e.send.Raise(p.limit)
	}
	switch {
	case p.data:
		if !e.recv.MayCome() {
			return fmt.Errorf("frame %d is beyond the limit %d", p.seq, e.recv.Told)
		}
		e.recv.Came()
		if e.kept++; m.control {
			m.take(e, 1)
		}
	case p.lower:
		e.send.Lower(p.limit)
	case p.lowered:
		if !e.recv.Lowering {
			return fmt.Errorf("a reply to no lower limit")
		}
		m.spare += e.recv.Lowered()
	}
	return nil
}

// take has the application take n frames.
func (m *model) take(e *end, n uint32) {
	most := uint32(m.IntN(wire.MaxWindow + 1))
	if m.control {
		most = 0
	}
	more, free := e.recv.Took(n, most)
	e.kept -= n
	m.spare += free
	if more > 0 && more <= m.spare && m.IntN(4) > 0 {
		m.spare -= more
		e.recv.Granted(more)
	}
}

// pick returns the index of a weight.
func (m *model) pick(weights [10]int) int {
	all := 0
	for _, w := range weights {
		all += w
	}
	n := m.IntN(all)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	panic("no weight")
}

// few returns a number of at most n, and in half of the runs mostly 0.
func (m *model) few(n uint32) uint32 {
	if m.slow && m.IntN(8) > 0 {
		return 0
	}
	return m.Uint32N(n + 1)
}

// check reports what must never be.
func (m *model) check(blocks int) error {
	for i := range m.ends {
		from, to := &m.ends[i], &m.ends[1-i]
		blocks -= int(to.recv.Window - to.recv.least)
		window := int32(to.recv.Window)
		free := 0 // frames without a credit that the peer has not handled
		for _, p := range to.out {
			if !p.data {
				free++
			}
		}
		if m.free = max(m.free, free); free > mostFree && !m.control || free > mostFreeControl && m.control {
			return fmt.Errorf("%d frames without a credit are under way: %+v", free, to.out)
		}
		// Each frame that was sent, or may be sent now or when a limit arrives, needs a block of its receiver.
		promised := []uint32{from.send.Sent, from.send.Limit}
		for _, p := range to.out {
			if p.told {
				promised = append(promised, p.limit)
			}
		}
		for _, limit := range promised {
			if n := int32(limit - to.recv.consumed); n > window {
				return fmt.Errorf("%d frames may be with the receiver, whose window is %d", n, window)
			}
		}
		switch r := &to.recv; {
		case window > wire.MaxWindow || r.Target > r.Window || r.Target < r.least:
			return fmt.Errorf("window %d, target %d", window, r.Target)
		case r.Received-r.consumed != to.kept:
			return fmt.Errorf("%d frames are kept, want %d", r.Received-r.consumed, to.kept)
		}
	}
	if blocks != m.spare || m.spare < 0 {
		return fmt.Errorf("%d blocks are left, want %d", m.spare, blocks)
	}
	return nil
}

// settle lets everything that is under way arrive, and the applications take all.
func (m *model) settle() error {
	for busy := true; busy; {
		busy = false
		for i := range m.ends {
			e, other := &m.ends[i], &m.ends[1-i]
			for m.pump(e, true) {
				busy = true
			}
			for len(other.out) > 0 {
				busy = true
				if err := m.deliver(e, other); err != nil {
					return err
				}
			}
			if e.kept > 0 {
				busy = true
				m.take(e, 1+m.Uint32N(e.kept))
			}
		}
	}
	for i := range m.ends {
		if e := &m.ends[i]; e.more > 0 || e.recv.Lowering || e.send.Answer {
			return fmt.Errorf("end %d stands still: %+v", i, e)
		}
	}
	return nil
}

// run does random steps, and returns how many.
func (m *model) run() (steps int, err error) {
	blocks := m.spare
	var often [10]int // how often each step of an end is done for a while
	for steps = range 2000 {
		if steps%128 == 0 {
			for i := range often {
				often[i] = 1 << m.IntN(6)
			}
		}
		step := m.pick(often)
		i := step % 2
		e, other := &m.ends[i], &m.ends[1-i]
		switch step / 2 {
		case 0:
			if e.more < 200 {
				e.more += m.IntN(100)
			}
		case 1:
			if n := m.few(wire.MaxWindow - 1); !m.control {
				m.spare += e.recv.Shrink(n, m.IntN(2) == 0)
			}
		case 2:
			if e.kept > 0 {
				m.take(e, 1+m.few(e.kept-1))
			}
		case 3:
			for n := m.IntN(8); n > 0 && m.pump(e, m.IntN(8) > 0); n-- {
			}
		default:
			if len(other.out) > 0 {
				err = m.deliver(e, other)
			}
		}
		if err == nil {
			err = m.check(blocks)
		}
		if err != nil {
			return steps, err
		}
	}
	if err := m.settle(); err != nil {
		return steps, err
	}
	for i := range m.ends { // an idle connection gives all of its blocks back
		m.spare += m.ends[i].recv.Shrink(0, true)
	}
	if err := m.settle(); err != nil {
		return steps, err
	}
	if err := m.check(blocks); err != nil || m.spare != blocks {
		return steps, fmt.Errorf("%d of %d blocks are left in the end: %w", m.spare, blocks, err)
	}
	return steps, nil
}

// TestModel has two ends send to each other what their limits permit, with arbitrary delays. Frames are numbered from
// shortly before their numbers wrap around. The window of half of the runs is fixed, as for frames about leases.
func TestModel(t *testing.T) {
	begin, steps, sent := time.Now(), 0, 0
	free := make(map[bool]int)
	for run := range *modelRuns {
		seed := rand.Uint64()
		if *modelSeed != 0 {
			seed = *modelSeed
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		m := newModel(rnd, -rnd.Uint32N(1000), seed%4 == 0)
		n, err := m.run()
		if err != nil {
			t.Fatalf("-model.seed=%d, step %d: %v", seed, n, err)
		}
		free[seed%4 == 0] = max(free[seed%4 == 0], m.free)
		if steps, sent = steps+n, sent+m.sent; *modelSeed != 0 {
			t.Logf("run %d: %d frames", run, m.sent)
			break
		}
	}
	t.Logf("at most %v frames without a credit are under way", free)
	t.Logf("%d steps, %d frames in %v", steps, sent, time.Since(begin).Round(time.Millisecond))
	if sent < *modelRuns*10 && *modelSeed == 0 {
		t.Errorf("only %d frames were sent", sent)
	}
}

// TestHostileLimits has a peer send random limits. Those that are accepted leave the limit near what was sent, so that
// it never wraps around.
func TestHostileLimits(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	const ahead = wire.MaxWindow
	for range 100 {
		s := NewSender(2, ahead)
		from := -rnd.Uint32N(500)
		s.Sent, s.Limit = s.Sent+from, s.Limit+from
		for step := range 2000 {
			limit, lower := s.Limit+rnd.Uint32N(4*ahead)-3*ahead, rnd.IntN(4) > 0
			if rnd.IntN(10) == 0 {
				limit = rnd.Uint32()
			}
			if s.Check(limit, lower) == "" {
				if s.Raise(limit); lower {
					s.Lower(limit)
				}
				if s.Limit != limit {
					t.Fatalf("seed %d, step %d: limit %d, want %d", seed, step, s.Limit, limit)
				}
			} else if d := int32(limit - s.Limit); d >= 0 && int32(limit-s.Sent) <= ahead && int32(limit-s.Sent) >= 0 {
				t.Fatalf("seed %d, step %d: limit %d is refused, with %d sent", seed, step, limit, s.Sent)
			}
			if d := int32(s.Limit - s.Sent); d < -ahead || d > ahead {
				t.Fatalf("seed %d, step %d: limit %d, with %d sent", seed, step, s.Limit, s.Sent)
			}
			for rnd.IntN(2) == 0 && s.Left() > 0 {
				s.Next()
			}
		}
	}
}
