package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Remote is an agent as the coordinator of a mesh has it. Its methods may be called by any goroutine.
type Remote struct {
	Hello
	Addr net.IP // where the agent is, as seen from here
	Here net.IP // where this end is, as seen from there

	Alone bool          // the mesh has one test at a time for it
	Hears time.Duration // of silences that Silences returns; 0: of none

	link     *link
	admitted bool
	gone     context.Context // ends when the agent is gone, and why
	end      context.CancelCauseFunc
	mu       sync.Mutex
	calls    map[uint64]chan message
	last     uint64
}

// Meet connects to a standing agent, and makes it a part of this mesh.
func Meet(ctx context.Context, host string, port int, t Token, timeout, patience time.Duration) (*Remote, error) {
	c, err := Dial(ctx, host, port, t, timeout, patience)
	if err != nil {
		return nil, err
	}
	c.unhook()
	r, err := meet(ctx, c.f, func() error { return c.f.send(request{Op: opLink}) }, timeout)
	var refused *RefusedError
	if errors.As(err, &refused) { // it may be too old
		if old, err := Dial(ctx, host, port, t, timeout, patience); err == nil {
			defer old.Close()
			if program, err := old.Hold(timeout); err == nil {
				return nil, &ReleaseError{program}
			}
		}
	}
	return r, err
}

// ReleaseError is an agent of a release that this one does not work with.
type ReleaseError struct{ Program string }

// Error returns one line.
func (e *ReleaseError) Error() string {
	return fmt.Sprintf("it runs %.100q; use the same release on all hosts", e.Program)
}

// Accept meets an agent that dialed. It is admitted or refused by what it says.
func Accept(ctx context.Context, c net.Conn, t Token) (*Remote, error) {
	c.SetDeadline(time.Now().Add(StepLimit))
	defer context.AfterFunc(ctx, func() { c.Close() })()
	f, err := authenticate(c, t)
	if err != nil {
		c.Close()
		return nil, err
	}
	return meet(ctx, f, func() error { return nil }, StepLimit)
}

// meet has an agent introduce itself.
func meet(ctx context.Context, f *frames, ask func() error, timeout time.Duration) (*Remote, error) {
	defer context.AfterFunc(ctx, func() { f.Close() })()
	f.SetDeadline(time.Now().Add(timeout))
	var m message
	err := ask()
	if err == nil {
		err = f.receive(&m, maxReply) // the list of a launcher's nodes may be long
	}
	switch {
	case err != nil && !errors.Is(err, ErrFrame):
		err = &StepError{"it connected, and proved its token", err}
	case err != nil:
	case m.Op == opJoin && m.Hello != nil:
		f.SetDeadline(time.Time{})
		if len(m.Hello.NICs) == 0 {
			m.Hello.NICs = []NIC{{}}
		}
		r := newRemote(*m.Hello, newLink(f, DefaultBeat))
		r.Addr, r.Here = address(f.RemoteAddr()), address(f.LocalAddr())
		return r, nil
	case m.Error != "":
		err = &RefusedError{f.RemoteAddr().String(), m.Error}
	default:
		f.send(message{Op: opEnd, Error: "this is rdmaperf mesh, which is no agent"})
		err = fmt.Errorf("%w: %.20q instead of an agent's name", ErrFrame, m.Op)
	}
	f.Close()
	return nil, err
}

func newRemote(h Hello, l *link) *Remote {
	r := &Remote{Hello: h, link: l, calls: map[uint64]chan message{}}
	r.gone, r.end = context.WithCancelCause(context.Background())
	return r
}

func address(a net.Addr) net.IP {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP
	}
	return nil
}

// Admit makes the agent a part of the mesh, with a heartbeat, if it is none yet. It has to be called before the methods
// below, unless Refuse is called. One goroutine at a time may call it.
func (r *Remote) Admit(ctx context.Context, beat time.Duration) error {
	if r.admitted {
		return nil
	}
	r.link.beat, r.link.pulse.limit, r.link.ear.bound = beat, missed*beat, r.Hears
	if err := r.link.send(message{Op: opWelcome, Beat: beat.Milliseconds()}); err != nil {
		r.link.f.Close()
		return err
	}
	r.admitted = true
	go func() { r.end(r.link.live(ctx, r.take)) }()
	return nil
}

// Refuse ends the meeting, with a reason for the agent. With an empty one, it is the end of the mesh.
func (r *Remote) Refuse(why string) {
	r.link.send(message{Op: opEnd, Error: why})
	r.link.f.Close()
}

// Ended is closed when the agent is gone.
func (r *Remote) Ended() <-chan struct{} { return r.gone.Done() }

// Why returns why it is gone.
func (r *Remote) Why() error { return context.Cause(r.gone) }

// take hands a message of the agent to the call that waits for it.
func (r *Remote) take(m message) error {
	switch m.Op {
	case opPort, opDone, opHere:
	case opEnd:
		return fmt.Errorf("%w: %.200s", ErrLeft, m.Error)
	default:
		return fmt.Errorf("%w: %.20q", ErrFrame, m.Op)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.calls[m.ID]; c != nil {
		select {
		case c <- m:
		default: // more than a test can have to say
		}
	}
	return nil
}

// call sends a message that gets replies.
func (r *Remote) call(m message) (*call, error) {
	r.mu.Lock()
	r.last++
	m.ID = r.last
	c := &call{r: r, id: m.ID, replies: make(chan message, 2)}
	r.calls[m.ID] = c.replies
	r.mu.Unlock()
	if err := r.link.send(m); err != nil {
		c.drop()
		return nil, err
	}
	return c, nil
}

// call is a question to an agent that has not answered it yet.
type call struct {
	r       *Remote
	id      uint64
	replies chan message
}

func (c *call) drop() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	delete(c.r.calls, c.id)
}

// reply waits for the next one.
func (c *call) reply(ctx context.Context) (message, error) {
	select {
	case m := <-c.replies:
		var err error
		if m.Error != "" {
			err = fmt.Errorf("%.1000s", m.Error)
		}
		if m.Unmet && err != nil {
			err = &wire.MeetError{Err: err}
		}
		return m, err
	case <-c.r.Ended():
		return message{}, c.r.Why()
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

// Server is a server that an agent has for one test.
type Server struct {
	Port int
	CPU  *starve.Waits // after Close, or where Serve failed; nil: not known
	call *call
}

// Serve makes a NIC of the agent the server of a test, until Close, which is not needed if it fails.
func (r *Remote) Serve(ctx context.Context, nic string, p wire.Params) (*Server, error) {
	c, err := r.call(message{Op: opServe, Test: &p, NIC: nic, Alone: r.Alone})
	s := &Server{call: c}
	if err != nil {
		return s, err
	}
	m, err := c.reply(ctx)
	if err == nil && (m.Op != opPort || m.Port < 1 || m.Port > 65535) {
		err = fmt.Errorf("%w: a server without a port", ErrFrame)
	}
	if err != nil {
		s.CPU = c.cancel(m)
		return s, err
	}
	s.Port = m.Port
	return s, nil
}

// Close waits for the end of a server whose client has ended, for a while, and then ends it. It returns why the test
// failed at this end.
func (s *Server) Close(patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errLate)
	defer cancel()
	m, err := s.call.reply(ctx)
	s.CPU = s.call.cancel(m)
	if errors.Is(err, errLate) {
		return nil
	}
	return err
}

var errLate = errors.New("late")

// cancels is how long a test may take to end that is told to: only then it is known how busy its CPUs were.
const cancels = 3 * time.Second

// cancel ends a call, and its test if that has not ended with the last reply, and returns how busy the CPUs were.
func (c *call) cancel(m message) *starve.Waits {
	defer c.drop()
	if m.Op != opDone {
		c.r.link.send(message{Op: opCancel, ID: c.id})
		ctx, cancel := context.WithTimeout(context.Background(), cancels)
		defer cancel()
		for m.Op != opDone && ctx.Err() == nil && c.r.Why() == nil {
			m, _ = c.reply(ctx)
		}
	}
	if m.CPU.Check() != nil {
		return nil
	}
	return m.CPU
}

// Test makes a NIC of the agent the client of a test.
func (r *Remote) Test(ctx context.Context, nic string, p wire.Params, host string, port int) (Figures, error) {
	c, err := r.call(message{Op: opTest, Test: &p, NIC: nic, Host: host, Port: port, Alone: r.Alone})
	if err != nil {
		return Figures{}, err
	}
	m, err := c.reply(ctx)
	f := Figures{CPU: c.cancel(m)}
	if err != nil {
		return f, err
	}
	if m.Figures == nil {
		return f, errNoFigure
	}
	m.Figures.CPU = f.CPU
	return *m.Figures, m.Figures.check(p.Metric)
}

var errNoFigure = errors.New("no figure in its result")

// mostFigure is more than any device has: bits per second, or nanoseconds.
const mostFigure = 1e15

// check returns what is wrong with the figures of a test.
func (f *Figures) check(m wire.Metric) error {
	for _, v := range []float64{f.Bits, f.P50, f.P99, f.Max} {
		if !(v >= 0 && v <= mostFigure) {
			return fmt.Errorf("a figure of %g in its result", v)
		}
	}
	if m == wire.Bandwidth && f.Bits == 0 || m == wire.Latency && f.P50 == 0 {
		return errNoFigure
	}
	return nil
}

// ErrMute means that an agent sends heartbeats, and nothing else.
var ErrMute = errors.New("it does not answer, but sends heartbeats")

// Ask waits until the agent answers, whatever it says, or is lost. It fails with ErrMute after a time.
func (r *Remote) Ask(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrMute)
	defer cancel()
	c, err := r.call(message{Op: opAsk})
	if err != nil {
		return err
	}
	defer c.drop()
	m, err := c.reply(ctx)
	if m.Op != "" {
		return nil
	}
	return err
}
