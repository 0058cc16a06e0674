package session

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/memory"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/place"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// Session holds all that a test has open.
type Session struct {
	plan    plan.Plan
	ctx     context.Context
	alone   uint64 // bytes of memory that the plan takes before a peer asks for more
	shelf   *Shelf // nil: the device and memory are this session's alone
	way     way
	strange func(addr string, why error)
	setup   Setup // Setup.Local.Inline and Setup.OutReads are the values that the session uses

	place place.Place
	unpin func()

	dev    *ibv.Device
	ibPort uint8
	attr   *ibv.DeviceAttr
	port   *ibv.PortAttr
	mtu    ibv.MTU

	conn  *wire.Conn
	terms wire.Agreed

	pd             *ibv.PD
	mrs            []*memory.Memory // one, or one for each queue pair
	slot           uint64           // bytes of one send or receive area
	credits        *ibv.MR          // of all queue pairs; nil: messages need none
	cqs            []queues         // of each thread
	qps            []*ibv.QP
	ahs            []*ibv.AH // UD, DC
	xrcd           *ibv.XRCD // XRC
	srq            *ibv.SRQ  // of receives that are shared
	srqn           uint32    // its number, XRC
	own            []wire.Dest
	group, unicast ibv.GID // of a member of a group
	peer           []wire.Dest
}

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
		s.way = &rdmaCM{Session: s}
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
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	s.describe()
	return nil
}

// build makes memory, CQs and queue pairs.
func (s *Session) build() error {
	p := &s.plan
	if err := s.allocate(); err != nil {
		return err
	}
	var err error
	if err = s.makeCredits(); err != nil {
		return err
	}
	if err = s.makeCQs(); err != nil {
		return err
	}
	if err = s.makeShared(); err != nil {
		return err
	}
	if err := s.way.makeQPs(s.qpOptions()); err != nil {
		return err
	}
	s.peer = make([]wire.Dest, p.Ends())
	if s.Meets() {
		s.conn.UseGID(s.useGID())
	}
	return s.fill()
}

// sendDepth is the depth of a send queue.
func (s *Session) sendDepth() int {
	if s.Credits() {
		return s.plan.Queues.TxDepth + 1 // a credit
	}
	if s.plan.Bandwidth() {
		return s.plan.Queues.TxDepth
	}
	return max(s.plan.Queues.TxDepth, 2) // the next one is posted before the last one is done with
}

func (s *Session) qpOptions() ibv.QPOptions {
	p := &s.plan
	qo := ibv.QPOptions{Type: p.QPType(), MaxSendWR: s.sendDepth(), MaxRecvWR: max(p.Queues.RxDepth, 1),
		MaxInline: p.Queues.Inline}
	if p.Queues.Inline == plan.Auto {
		qo.MaxInline = p.AutoInline()
	}
	if p.Transport.OneWay() {
		qo.MaxRecvWR = 0
	} else {
		qo.SRQ = s.srq
	}
	return qo
}

// Close closes everything, children first, and returns what went wrong.
func (s *Session) Close() error {
	errs := []error{s.way.closeListener()}
	if s.conn != nil {
		s.conn.Close()
	}
	errs = append(errs, s.way.closeQPs())
	for _, ah := range s.ahs {
		if ah != nil {
			errs = append(errs, ah.Close())
		}
	}
	add := func(open bool, c io.Closer) {
		if open {
			errs = append(errs, c.Close())
		}
	}
	add(s.srq != nil, s.srq)
	errs = append(errs, s.closeCQs())
	add(s.xrcd != nil, s.xrcd)
	if s.shelf != nil {
		err := s.giveBack(errors.Join(errs...))
		if s.unpin != nil {
			s.unpin()
		}
		return err
	}
	for _, mr := range s.mrs {
		errs = append(errs, mr.Close())
	}
	add(s.credits != nil, s.credits)
	add(s.pd != nil, s.pd)
	add(s.dev != nil, s.dev)
	if s.unpin != nil {
		s.unpin()
	}
	return errors.Join(errs...)
}
