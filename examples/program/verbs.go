package program

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Timeout is how long a program waits for its peer. As an error it reports that nothing came.
type Timeout struct {
	After time.Duration
	Lossy bool // datagrams, which may get lost
}

func (t Timeout) Error() string {
	lost := map[bool]string{true: ", or a datagram was lost"}[t.Lossy]
	return fmt.Sprintf("nothing for %v: the peer is gone or stuck%s (--timeout waits longer)", t.After, lost)
}

// Context returns a context that ends after the time, because of t.
func (t Timeout) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, t.After, t)
}

// Next waits for the next completion, which must be a success.
func (t Timeout) Next(ctx context.Context, cq *ibv.CQ) (ibv.WC, error) {
	ctx, cancel := t.Context(ctx)
	defer cancel()
	var wc [1]ibv.WC
	if _, err := cq.Wait(ctx, wc[:]); err != nil {
		return wc[0], cmp.Or(context.Cause(ctx), err)
	}
	return wc[0], wc[0].Err()
}

// NewQP makes a queue pair for a number of work requests each way, and what it needs. create is (*ibv.PD).CreateQP, or
// that of an *rdmacm.ID.
func NewQP(r *Run, dev *ibv.Device, create func(*ibv.PD, *ibv.CQ, *ibv.CQ, *ibv.QPOptions) (*ibv.QP, error),
	t ibv.QPType, depth int) *ibv.QP {
	pd := Keep(r, Must(dev.AllocPD()))
	cq := Keep(r, Must(dev.CreateCQ(2*depth, nil)))
	return Keep(r, Must(create(pd, cq, cq, &ibv.QPOptions{Type: t, MaxSendWR: depth, MaxRecvWR: depth})))
}

// GRH is the size of the header in front of each datagram that is received: a GRH, or with RoCE v2 over IPv4 an IPv4
// header in its last 20 bytes.
const GRH = 40

// FitsMTU checks that a datagram of the size of a flag fits in one packet.
func FitsMTU(dev *ibv.Device, port uint8, flag string, size int) {
	mtu := Must(dev.QueryPort(port)).ActiveMTU.Bytes()
	Ensure(size <= mtu, "%s %d: a datagram fits in one packet, and the MTU of the port is %d", flag, size, mtu)
}

// Messages describes the messages of a program.
type Messages struct {
	Kind        string // "message" or "datagram"
	Header      int    // bytes in front of each that is received, set by Flags
	Count, Size int
	Verify      bool
	Timeout
}

// Flags adds -C, -S, -V and --timeout. It returns m.
func (m *Messages) Flags(f *Flags, leastCount, mostSize int) *Messages {
	if m.Kind == "datagram" {
		m.Header, m.Lossy = GRH, true
	}
	f.Int(&m.Count, "count", "C", 10, leastCount, 1<<14, "`number` of "+m.Kind+"s, the same on both sides")
	f.Int(&m.Size, "size", "S", 100, 1, mostSize, "`bytes` in a "+m.Kind+", the same on both sides")
	f.BoolVarP(&m.Verify, "verify", "V", false, "check every byte; the sender has to be one of these examples")
	f.Timeout(&m.Timeout, "longest `time` without a "+m.Kind)
	return m
}

// Fill makes the first bytes of b message n. It differs from byte to byte and from message to message.
func (m *Messages) Fill(b []byte, n int) {
	for i := range b[:m.Size] {
		b[i] = byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1
	}
}

// Check checks the size of message n, and with -V every byte.
func (m *Messages) Check(b []byte, n int) error {
	err := Want(len(b) == m.Size, "%s %d has %d bytes, want %d: give both sides the same -S", m.Kind, n, len(b), m.Size)
	if err != nil || !m.Verify {
		return err
	}
	err = Compare(b, func(want []byte) { m.Fill(want, n) })
	return Want(err == nil, "message %d: %w (is the peer one of these examples?)", n, err)
}

// Checked is the end of a report: what -V has found.
func Checked(verify bool) string {
	return map[bool]string{true: ", every byte as it should be"}[verify]
}

// Compare compares a message, byte by byte, with what fill makes. The error names the first wrong byte.
func Compare(got []byte, fill func([]byte)) error {
	want := make([]byte, len(got))
	fill(want)
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d is %#02x, want %#02x", i, got[i], want[i])
		}
	}
	return nil
}

// Exchange is the messages of one queue pair. Its memory has a place for each message that comes, with a header, and
// behind them one for each that goes.
type Exchange struct {
	*Messages
	QP        *ibv.QP
	Came      func(*ibv.WC, []byte) // if there is one, gets each that was received, with its header
	AH        *ibv.AH               // of datagrams: where they go, as the next two
	QPN, QKey uint32

	mr             *ibv.MR
	sent, received int
}

// Exchange posts a receive for every message, before the peer can send.
func (m *Messages) Exchange(r *Run, qp *ibv.QP) *Exchange {
	place := m.Header + m.Size
	mr := Keep(r, Must(qp.PD().AllocMR(max(1, m.Count*(place+m.Size)), ibv.LocalWrite, nil)))
	wrs := make([]ibv.RecvWR, m.Count)
	for n := range wrs {
		wrs[n] = ibv.RecvWR{ID: uint64(n), SGEs: []ibv.SGE{mr.SGE(n*place, place)}}
	}
	Must(qp.PostRecv(wrs))
	return &Exchange{Messages: m, QP: qp, mr: mr}
}

// Send posts all messages. A datagram brings the number of its queue pair as immediate data.
func (x *Exchange) Send() {
	batch := x.QP.Batch()
	for n := range x.Count {
		at := x.Count*(x.Header+x.Size) + n*x.Size
		x.Fill(x.mr.Bytes()[at:], n)
		if message := x.mr.SGE(at, x.Size); x.AH == nil {
			batch.Send(0, ibv.Signaled, message)
		} else {
			batch.SendImmTo(0, ibv.Signaled, message, x.QP.Num(), x.AH, x.QPN, x.QKey)
		}
	}
	Check(batch.Post())
}

// Finish waits until so many messages have been sent, and so many received. It checks each that was received.
func (x *Exchange) Finish(ctx context.Context, sent, received int) {
	for x.sent < sent || x.received < received {
		wc, err := x.Next(ctx, x.QP.RecvCQ())
		Ensure(err == nil || x.received >= received, "%d %ss received of %d: %w", x.received, x.Kind, received, err)
		Ensure(err == nil, "%d %ss sent of %d: %w", x.sent, x.Kind, sent, err)
		if wc.Opcode == ibv.WCSend {
			x.sent++
			continue
		}
		b := x.mr.Bytes()[int(wc.ID)*(x.Header+x.Size):][:wc.ByteLen]
		Check(x.Check(b[x.Header:], x.received))
		if x.Came != nil {
			x.Came(&wc, b)
		}
		x.received++
	}
}

// Resolving is how long an address or a route may take.
const Resolving = 2 * time.Second

// Events are those of one channel.
type Events struct {
	*rdmacm.EventChannel
	handle func(*rdmacm.Event)
	seen   map[rdmacm.EventType]int
}

// NewEvents makes a channel. handle gets its events, those that report an error also.
func NewEvents(r *Run, handle func(*rdmacm.Event)) *Events {
	return Keep(r, &Events{Must(rdmacm.NewEventChannel()), handle, map[rdmacm.EventType]int{}})
}

// Until waits until n events of a type have come since the beginning. It returns the last one that has.
func (e *Events) Until(ctx context.Context, n int, last rdmacm.EventType) (ev *rdmacm.Event) {
	next := func() {
		ev = Must(e.Event(ctx))
		defer Doing("%v", ev.Type)
		if ev.Type != rdmacm.EventTimewaitExit && ev.Type != rdmacm.EventAddrChange {
			e.handle(ev)
		}
		e.seen[ev.Type]++
	}
	for e.seen[last] < n {
		next()
	}
	return ev
}

// Connections are all those of one side. One goroutine takes them through their steps, by the events of one channel.
// They are not safe for concurrent use.
type Connections struct {
	Ends
	Messages
	Number    int
	PortSpace rdmacm.PortSpace
	Prepare   func(*Run, *rdmacm.ID, *Exchange) // gets each when its device is known, and before the peer can send
	IDs       []*rdmacm.ID                      // a server's first one listens

	*Events
	run *Run
	all []*Exchange
}

// NewFlags returns -s, -b, -p, -c, -C, -S, -V and --timeout. things names the connections for the help.
func (c *Connections) NewFlags(command, port, things string, leastCount, mostSize int) *Flags {
	f := c.Ends.NewFlags(command, port)
	f.Int(&c.Number, "connections", "c", 1, 1, 1<<16, "`number` of "+things+", the same on both sides")
	c.Messages.Flags(f, leastCount, mostSize)
	return f
}

// Connect opens all.
func (c *Connections) Connect(r *Run) {
	c.run, c.Events = r, NewEvents(r, c.step)
	from, to := c.Resolve()
	if c.Server != "" {
		for range c.Number {
			Check(c.id(Must(c.CreateID(c.PortSpace))).ResolveAddr(from, to, Resolving))
		}
	} else {
		l := c.id(Must(c.CreateID(c.PortSpace)))
		Check(l.Bind(from))
		Check(l.Listen(0))
		fmt.Fprintf(r, "listening on %v\n", l.LocalAddr())
		c.Until(r, c.Number, rdmacm.EventConnectRequest)
	}
	if c.Server != "" || c.PortSpace == rdmacm.PortSpaceTCP { // a server of datagrams gets no other event
		c.Until(r, c.Number, rdmacm.EventEstablished)
	}
}

// id adds an ID, which is closed at the end.
func (c *Connections) id(id *rdmacm.ID) *rdmacm.ID {
	c.IDs = append(c.IDs, Keep(c.run, id))
	return id
}

// step takes a connection to its next step.
func (c *Connections) step(ev *rdmacm.Event) {
	id := ev.ID
	switch ev.Type {
	case rdmacm.EventAddrResolved:
		c.queuePair(id)
		Check(id.ResolveRoute(Resolving))
	case rdmacm.EventRouteResolved:
		Check(id.Connect(nil))
	case rdmacm.EventConnectRequest: // to the server
		if len(c.all) == c.Number {
			Check(id.Close()) // which rejects it
			return
		}
		c.queuePair(c.id(id))
		Check(id.Accept(nil))
	case rdmacm.EventEstablished:
		if ev.UD != nil { // where a client's datagrams go
			x := id.Value().(*Exchange)
			x.AH, x.QPN, x.QKey = Keep(c.run, Must(x.QP.PD().CreateAH(&ev.UD.AH))), ev.UD.QPN, ev.UD.QKey
		}
	case rdmacm.EventDisconnected:
		if c.Server != "" {
			Check(id.Disconnect()) // the reply
		}
	default:
		Check(ev.Err())
	}
}

// queuePair makes the queue pair of a connection, of the type of the port space, and posts a receive for every message.
func (c *Connections) queuePair(id *rdmacm.ID) {
	x := c.Exchange(c.run, NewQP(c.run, Must(id.Verbs()), id.CreateQP, 0, max(1, c.Count)))
	id.SetValue(x)
	c.all = append(c.all, x)
	c.Prepare(c.run, id, x)
}

// SendAndReceive has all send their messages and receive as many, on the one side first, and reports that.
func (c *Connections) SendAndReceive(first bool) {
	for _, x := range c.all {
		if !first {
			x.Finish(c.run, 0, c.Count)
		}
		x.Send()
	}
	for _, x := range c.all {
		x.Finish(c.run, c.Count, c.Count)
	}
	fmt.Fprintf(c.run, "%d %ss sent and as many received%s\n", len(c.all)*c.Count, c.Kind, Checked(c.Verify))
}
