package session

import (
	"context"
	"errors"
	"os"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// New returns a session without open objects. It has to be closed.
func New(ctx context.Context, p plan.Plan) *Session {
	s := &Session{plan: p, ctx: ctx}
	_, s.alone, _ = areas(&p, os.Getpagesize(), cacheLine()) // what is impossible alone fails with a peer also
	s.setup.Local.Inline, s.setup.OutReads = p.Queues.Inline, p.Link.OutReads
	s.way = &sockets{Session: s, meeting: &tcpMeeting{Session: s}}
	if p.Peer.CMExchange {
		s.way = &sockets{Session: s, meeting: &cmMeeting{Session: s}}
	}
	if p.Peer.RDMACM {
		s.way = &rdmaCM{cmMeeting: cmMeeting{Session: s}}
	}
	if p.Transport == wire.RawEth {
		s.way = &frames{Session: s}
	}
	return s
}

// Try opens the device of a plan and checks what it asks of it, and closes it again: impossible options are reported
// before anything waits.
func Try(ctx context.Context, p plan.Plan) (device string, err error) {
	s := New(ctx, p)
	if err = s.openDevice(p.Link.Device, p.Link.IBPort); err == nil {
		device = s.dev.Name()
	}
	return device, errors.Join(err, s.Close())
}

// Open meets the peer and connects the queue pairs. waiting gets the port on which a server listens, strange what came
// there and was no client. Both may be nil.
func (s *Session) Open(waiting func(port int), strange func(addr string, why error)) error {
	if waiting == nil {
		waiting = func(int) {}
	}
	if s.strange = strange; strange == nil {
		s.strange = func(string, error) {}
	}
	if err := s.way.meet(waiting); err != nil {
		return err
	}
	steps := []func() error{s.hello, s.build, s.connect}
	if !s.Meets() {
		steps = []func() error{s.build, s.way.bringUp}
	}
	err := inOrder(steps...)
	if err == nil {
		s.describe()
	}
	return err
}

// build makes memory, CQs and queue pairs.
func (s *Session) build() error {
	return inOrder(s.allocate, s.makeCredits, s.makeCQs, s.makeShared,
		func() error { return s.way.makeQPs(s.qpOptions()) },
		func() error {
			s.peer = make([]wire.Dest, s.plan.Ends())
			if s.Meets() {
				s.Conn.UseGID(s.useGID())
			}
			return s.fill()
		})
}

// Close closes everything, children first, and returns what went wrong.
func (s *Session) Close() error {
	err := s.way.closeListener()
	if s.Conn != nil {
		s.Conn.Close()
	}
	err = errors.Join(err, s.way.closeQPs(), closeEach(s.ahs...), closeEach(s.srq), s.closeCQs(), closeEach(s.xrcd))
	if s.shelf != nil {
		err = s.giveBack(err)
	} else {
		err = errors.Join(err, closeEach(s.mrs...), closeEach(s.credits), closeEach(s.pd), closeEach(s.dev))
	}
	if s.unpin != nil {
		s.unpin()
	}
	return err
}
