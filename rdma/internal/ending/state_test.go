package ending

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// event is something that happens to a connection.
type event int

const (
	localClose event = iota
	localCloseWrite
	localCloseNow
	peerFIN
	peerClose
	peerPing // that says that the peer has closed
	peerReset
	send
	credit
	completion
	disconnect
	qpError
	deviceGone
	later // a while passes, so that a linger may end
	events
)

func (e event) String() string {
	return []string{"Close", "CloseWrite", "CloseNow", "FIN", "FIN of a close", "PING of a close", "RESET", "send",
		"credit", "completion", "disconnect", "QP error", "device gone", "later"}[e]
}

const linger = 5 * time.Second

var (
	errOwn, errGone   = errors.New("closed"), errors.New("device gone")
	errFlush, errPeer = errors.New("flushed"), errors.New("peer")
)

// wr is a work request of a model.
type wr struct {
	n         uint32
	data, fin bool
}

// model is a connection without a device: an owner of a State, its queue pair and its blocks.
type model struct {
	t  *testing.T
	r  *rand.Rand
	mu sync.Mutex
	s  State

	staged, credits  int
	fin              bool   // a FIN is due
	lastFIN          uint32 // work request
	finSent          bool
	posted, done     uint32
	flying           []wr
	blocks           int // that the connection has
	accepted, acked  int
	gone             chan struct{}
	isGone           bool
	dead             bool // the device completes nothing any more
	broken           bool // a work request has failed, and so do those after it
	lingerer         *time.Timer
	teardowns, overs int
	forgotten        bool
	log              []event
}

func (m *model) do(d Do) {
	if d&DropStaged != 0 {
		m.drop()
	}
	if d&FIN != 0 {
		m.fin, m.finSent = true, false
	}
	if d&Reset != 0 {
		m.fin = false
		if m.s.ResetAux() == 0 {
			m.t.Errorf("%v: a RESET without a reason", m.log)
		}
	}
	if d&Pump != 0 {
		m.pump()
	}
	if d&Linger != 0 {
		if m.lingerer != nil {
			m.t.Errorf("%v: two lingers", m.log)
		}
		m.lingerer = time.AfterFunc(linger, func() { m.fail(errOwn, false) })
	}
	if d&Teardown != 0 {
		m.teardowns++
		go m.s.Run(&m.mu, m)
	}
}

func (m *model) drop() {
	m.blocks -= m.staged
	m.staged = 0
}

// pump posts what is due, as link.pump does. A queue has room for 4.
func (m *model) pump() {
	for !m.s.Ending && len(m.flying) < 4 {
		w := wr{n: m.posted}
		switch {
		case m.staged > 0 && m.credits > 0:
			w.data = true
			m.staged--
			m.credits--
		case m.fin && m.staged == 0:
			w.fin, m.fin, m.finSent, m.lastFIN = true, false, true, m.posted
			if (m.s.FINAux() == wire.FINClosed) != m.s.Closed() {
				m.t.Errorf("%v: a FIN with aux %d", m.log, m.s.FINAux())
			}
		default:
			return
		}
		m.posted++
		m.flying = append(m.flying, w)
	}
}

func (m *model) fail(err error, weak bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.do(m.s.Fail(err, weak))
}

// complete completes the oldest work request.
// Preconditions: mu is held.
func (m *model) complete(err error, weak bool) {
	if len(m.flying) == 0 {
		return
	}
	w := m.flying[0]
	m.flying = m.flying[1:]
	if m.s.IsMarker(w.n) {
		return
	}
	if err != nil {
		m.do(m.s.Fail(err, weak))
	}
	m.done, m.broken = w.n+1, m.broken || err != nil
	if w.data {
		m.blocks--
		if err == nil {
			m.acked++
		}
	}
	if err == nil && m.finSent && !m.fin && m.lastFIN < m.done {
		m.do(m.s.FINArrived(errOwn))
	}
	m.pump()
}

func (m *model) Await(ch <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-m.gone:
	case <-timer.C:
	}
	return false
}

func (m *model) Resetting() <-chan struct{} {
	if m.r.IntN(2) == 0 {
		return nil
	}
	return make(chan struct{}) // the peer's adapter does not take it
}

func (m *model) Rest() { time.Sleep(time.Duration(m.r.IntN(3)) * time.Millisecond) }

// Mark posts the marker. A device that works flushes what is before it.
func (m *model) Mark() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.s.Mark(m.posted+1, 1)
	if m.dead && m.r.IntN(2) == 0 {
		return false
	}
	m.flying = append(m.flying, wr{n: m.posted + 1})
	if !m.dead {
		for range len(m.flying) {
			time.AfterFunc(time.Duration(m.r.IntN(3))*time.Millisecond, func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.complete(errFlush, true)
			})
		}
	}
	return true
}

func (m *model) Forget() {
	m.mu.Lock()
	m.dead = true // what comes later is not ours
	m.mu.Unlock()
}

func (m *model) CloseQP(drained bool) error {
	if drained && len(m.flying) > 0 {
		m.t.Errorf("%v: drained, but %d work requests are under way", m.log, len(m.flying))
	}
	return nil
}

func (m *model) Drain(error) {
	for _, w := range m.flying {
		if w.data {
			m.blocks--
		}
	}
	m.flying = nil
	m.drop()
}

func (m *model) Over() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overs++
	m.leave()
}

func (m *model) leave() {
	if m.s.Leave() {
		m.forgotten = true
		m.s.Forgotten()
	}
}

func (m *model) happen(e event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, e)
	closed := m.s.Closed()
	switch e {
	case localClose:
		m.do(m.s.Close())
	case localCloseWrite:
		if !closed && !m.s.Ending {
			m.do(m.s.CloseWrite())
		}
	case localCloseNow:
		m.do(m.s.CloseNow(2))
		m.do(m.s.Fail(errOwn, false))
	case peerFIN, peerClose:
		aux := uint32(0)
		if e == peerClose {
			aux = wire.FINClosed
		}
		if !m.dead && m.s.MayFIN(aux) {
			m.do(m.s.PeerFINCame(aux))
		}
	case peerPing:
		if !m.dead {
			m.do(m.s.PeerPinged(wire.FINClosed))
		}
	case peerReset, disconnect:
		if !m.dead {
			m.do(m.s.Fail(errPeer, false))
		}
	case send:
		if !closed && !m.s.WriteShut && !m.s.PeerClosed && !m.s.Ending {
			m.staged++
			m.blocks++
			m.accepted++
			m.pump()
		}
	case credit:
		m.credits++
		m.pump()
	case completion:
		if !m.dead && !m.broken && !m.s.marking {
			m.complete(nil, false)
		}
	case qpError:
		if !m.dead && !m.s.marking {
			m.complete(errFlush, true)
		}
	case deviceGone:
		m.dead = true
		if !m.isGone {
			m.isGone = true
			close(m.gone)
		}
		m.do(m.s.Fail(errGone, false))
	}
	if m.s.PeerClosed && !m.s.Ending && m.staged > 0 {
		m.t.Errorf("%v: %d frames are staged that nobody will take", m.log, m.staged)
	}
	if !closed && m.s.Closed() {
		go func() { // what Close does behind
			m.mu.Lock()
			defer m.mu.Unlock()
			m.leave()
		}()
	}
}

// check looks at the end, after a time in which each state has to have ended.
func (m *model) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	fail := func(format string, args ...any) { m.t.Errorf("%v: %s", m.log, fmt.Sprintf(format, args...)) }
	if ended := closed(m.s.Done()); ended != m.s.Ending || ended != (m.teardowns == 1) || ended != (m.overs == 1) ||
		ended != m.s.Drained || m.s.Closed() && !ended {
		fail("done %v, ending %v, drained %v, closed %v, %d teardowns", ended, m.s.Ending, m.s.Drained,
			m.s.Closed(), m.teardowns)
	}
	if !m.s.Ending {
		return
	}
	if m.blocks != 0 || m.staged != 0 {
		fail("%d blocks are not returned, %d frames are staged", m.blocks, m.staged)
	}
	if !closed(m.s.Settled()) || m.s.Cause == nil {
		fail("settled %v, cause %v", closed(m.s.Settled()), m.s.Cause)
	}
	if gone := closed(m.s.Gone()); gone != m.s.Closed() || gone != m.forgotten {
		fail("gone %v, forgotten %v, closed %v", gone, m.forgotten, m.s.Closed())
	}
	if m.s.Delivered && !m.s.PeerClosed && m.acked != m.accepted {
		fail("delivered, with %d of %d frames acknowledged", m.acked, m.accepted)
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// play has events happen, with pauses if there is a source of them.
func play(t *testing.T, r *rand.Rand, pauses bool, list ...event) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{t: t, r: r, gone: make(chan struct{}), credits: r.IntN(3)}
		m.s.Init()
		for _, e := range list {
			if e == later {
				time.Sleep(linger / 3)
			}
			m.happen(e)
			if pauses && r.IntN(2) == 0 {
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
			}
		}
		time.Sleep(linger + 4*Most)
		synctest.Wait()
		m.check()
		if m.lingerer != nil {
			m.lingerer.Stop()
		}
	})
}

// TestOrders has each order of three events, after one frame was sent.
func TestOrders(t *testing.T) {
	r := rand.New(&sharedSource{src: rand.NewPCG(1, 2)})
	for a := range events {
		for b := range events {
			for c := range events {
				play(t, r, false, send, a, b, c)
				if t.Failed() {
					return
				}
			}
		}
	}
}

// TestRandom has long orders.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(&sharedSource{src: rand.NewPCG(seed, 0)})
	for range 3000 {
		var list []event
		for range r.IntN(20) {
			e := event(r.IntN(int(events)))
			if r.IntN(2) == 0 {
				e = send + event(r.IntN(3)) // so that others do not end it at once
			}
			list = append(list, e)
		}
		play(t, r, true, list...)
		if t.Failed() {
			return
		}
	}
}

// TestCauses replaces a cause that says little by one that says more, and keeps all others.
func TestCauses(t *testing.T) {
	for _, c := range []struct {
		name string
		errs []error
		want error
	}{
		{"one", []error{errPeer}, errPeer},
		{"the first", []error{errPeer, errGone}, errPeer},
		{"after a flush", []error{errFlush, errGone, errPeer}, errGone},
		{"two flushes", []error{errFlush, errFlush}, errFlush},
		{"a flush later", []error{errPeer, errFlush}, errPeer},
	} {
		var s State
		s.Init()
		for i, err := range c.errs {
			if do := s.Fail(err, err == errFlush); (do&Teardown != 0) != (i == 0) {
				t.Errorf("%s: Fail %d: steps %b", c.name, i, do)
			}
		}
		if s.Cause != c.want {
			t.Errorf("%s: %v, want %v", c.name, s.Cause, c.want)
		}
		s.drain(nil)
		s.Fail(errOwn, false)
		if s.Cause != c.want {
			t.Errorf("%s: %v after the end, want %v", c.name, s.Cause, c.want)
		}
	}
}

// TestFINs sends one FIN for CloseWrite and another for Close, and takes the same from the peer.
func TestFINs(t *testing.T) {
	var s State
	s.Init()
	if do := s.CloseWrite(); do&FIN == 0 || s.FINAux() != 0 || s.CloseWrite() != 0 {
		t.Errorf("CloseWrite: steps %b, want a FIN without the flag, once", do)
	}
	if do := s.FINArrived(errOwn); do != 0 || closed(s.Settled()) {
		t.Errorf("the FIN of CloseWrite: steps %b", do)
	}
	if do := s.Close(); do&(FIN|Linger) != FIN|Linger || s.FINAux() != wire.FINClosed || s.Close() != 0 {
		t.Errorf("Close: steps %b, want a FIN with the flag, once", do)
	}
	if do := s.FINArrived(errOwn); do&Teardown == 0 || !s.Delivered || !closed(s.Settled()) {
		t.Errorf("the FIN of Close: steps %b, delivered %v", do, s.Delivered)
	}

	for _, c := range []struct {
		before []uint32
		aux    uint32
		want   bool
	}{
		{nil, 0, true}, {nil, wire.FINClosed, true}, {[]uint32{0}, 0, false}, {[]uint32{0}, wire.FINClosed, true},
		{[]uint32{wire.FINClosed}, wire.FINClosed, false}, {[]uint32{wire.FINClosed}, 0, false},
	} {
		var s State
		s.Init()
		for _, aux := range c.before {
			s.PeerFINCame(aux)
		}
		if s.MayFIN(c.aux) != c.want {
			t.Errorf("after FINs %v, a FIN with aux %d: %v", c.before, c.aux, !c.want)
		}
	}
}

// TestPeerPinged takes a PING that says that the peer has closed, before its FIN or between two.
func TestPeerPinged(t *testing.T) {
	var s State
	s.Init()
	if do := s.PeerPinged(0); do != 0 || s.PeerClosed {
		t.Errorf("a PING that says nothing: steps %b, closed %v", do, s.PeerClosed)
	}
	if do := s.PeerPinged(wire.FINClosed); do&(DropStaged|StopOps) == 0 || !s.PeerClosed || s.PeerFIN {
		t.Errorf("a PING: steps %b, closed %v, FIN %v", do, s.PeerClosed, s.PeerFIN)
	}
	for _, aux := range []uint32{0, wire.FINClosed} {
		if !s.MayFIN(aux) {
			t.Errorf("a FIN with aux %d may not follow", aux)
		}
		if do := s.PeerFINCame(aux); do != 0 {
			t.Errorf("a FIN with aux %d: steps %b, want none twice", aux, do)
		}
	}
}

// sharedSource is a source of random numbers that several goroutines use.
type sharedSource struct {
	mu  sync.Mutex
	src rand.Source
}

func (s *sharedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src.Uint64()
}
