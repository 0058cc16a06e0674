package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// missed is after how many heartbeats that did not come the other end counts as lost.
const missed = 3

// Heartbeats of a link.
const (
	DefaultBeat = 2 * time.Second
	leastBeat   = 10 * time.Millisecond
	mostBeat    = time.Hour
)

// Hello has the words of an agent about itself.
type Hello struct {
	Name    string       `json:"name"` // of the host, as its scheduler or it calls it
	ID      string       `json:"id"`   // differs between agents
	Program string       `json:"program"`
	Most    int          `json:"max_clients"`
	Place   roster.Place `json:"place"`
	NICs    NICs         `json:"nics"`              // in the order of the rails
	Addrs   Addrs        `json:"addrs,omitempty"`   // of the host, with their networks
	Problem string       `json:"problem,omitempty"` // why it cannot run tests
}

// Figures are those of a test.
type Figures struct {
	Bits float64 `json:"bits,omitempty"` // per second
	P50  float64 `json:"p50,omitempty"`  // nanoseconds, as the others
	P99  float64 `json:"p99,omitempty"`
	Max  float64 `json:"max,omitempty"`

	CPU *starve.Waits `json:"-"` // of its end, also if the test failed; nil: not known
}

// Operations of a link. The coordinator sends the former, the agent the latter.
const (
	opWelcome = "welcome" // the agent belongs to the mesh
	opServe   = "serve"   // be the server of a test
	opTest    = "test"    // be its client
	opCancel  = "cancel"  // end a test
	opAsk     = "ask"     // are you there?
	opEnd     = "end"     // of the mesh, or of this agent's part in it

	opJoin = "join" // Hello
	opPort = "port" // of a server
	opDone = "done" // a test has ended
	opHere = "here"

	opBeat = "beat" // of both
)

// message is one of either end.
type message struct {
	Op      string       `json:"op"`
	ID      uint64       `json:"id,omitempty"` // of a test or a question
	Test    *wire.Params `json:"test,omitempty"`
	NIC     string       `json:"nic,omitempty"`
	Host    string       `json:"host,omitempty"`
	Port    int          `json:"port,omitempty"`
	Alone   bool         `json:"alone,omitempty"` // the host has one test at a time
	Beat    int64        `json:"beat_ms,omitempty"`
	Hello   *Hello       `json:"hello,omitempty"`
	Figures *Figures     `json:"figures,omitempty"`
	Error   string       `json:"error,omitempty"`
	Unmet   bool         `json:"unmet,omitempty"` // the error says nothing of the NICs: the two ends did not meet

	CPU *starve.Waits `json:"cpu,omitempty"` // of the end of a test
}

// Errors of a link.
var (
	// ErrSilent means that heartbeats are missing.
	ErrSilent = errors.New("no heartbeat")
	// ErrLeft means that the other end closed the connection without a word.
	ErrLeft = errors.New("the connection ended")
)

// link is a connection between a coordinator and an agent. Both ends send heartbeats.
type link struct {
	f     *frames
	pulse *pulse
	beat  time.Duration // between those that this end sends
	turn  chan struct{} // of senders
	ear   ear
}

// newLink makes a link of a connection whose ends know each other.
func newLink(f *frames, beat time.Duration) *link {
	l := &link{f: f, pulse: &pulse{Conn: f.Conn}, beat: beat, turn: make(chan struct{}, 1)}
	l.pulse.limit = missed * beat
	f.Conn = l.pulse
	return l
}

func (l *link) send(m message) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	return l.f.send(m)
}

// live sends heartbeats until ctx ends, and hands what comes to take, whose error ends the link.
func (l *link) live(ctx context.Context, take func(message) error) error {
	defer tick.Every(l.beat, func() {
		if l.send(message{Op: opBeat}) != nil {
			l.f.Close()
		}
	})()
	defer l.f.Close()
	defer context.AfterFunc(ctx, func() { l.f.Close() })()
	l.ear.hear()
	for {
		var m message
		if err := l.f.receive(&m, maxRequest); err != nil {
			return l.lost(ctx, err)
		}
		l.ear.hear()
		if m.Op == opBeat {
			continue
		}
		if err := take(m); err != nil {
			return err
		}
	}
}

// lost returns why nothing more comes.
func (l *link) lost(ctx context.Context, err error) error {
	var timed net.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return fmt.Errorf("%w for %v", ErrSilent, l.pulse.limit)
	case errors.Is(err, ErrFrame):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.ErrClosedPipe):
		return ErrLeft
	}
	return fmt.Errorf("%w: %w", ErrLeft, err)
}

// pulse is a connection from which something has to come within limit.
type pulse struct {
	net.Conn
	limit time.Duration
}

// glance is how long what has come already may take to be read.
const glance = 100 * time.Millisecond

// Read reads, and fails where nothing comes. If this process itself stood still meanwhile, what came in that time
// counts, and if nothing did, the other end gets the time once more.
func (p *pulse) Read(b []byte) (int, error) {
	for {
		end := time.Now().Add(p.limit)
		p.SetReadDeadline(end)
		n, err := p.Conn.Read(b)
		if err == nil || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		late := time.Since(end)
		p.SetReadDeadline(time.Now().Add(glance)) // the end of the time comes before what is there
		n, err = p.Conn.Read(b)
		if err == nil || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || late < p.limit/missed {
			return n, err
		}
	}
}
