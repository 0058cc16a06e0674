package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// Timeout is how long a program waits for its peer. As an error it reports that nothing came.
type Timeout struct {
	After time.Duration
	Lossy bool // datagrams, which may get lost
}

func (t Timeout) Error() string {
	lost := ""
	if t.Lossy {
		lost = ", or a datagram was lost"
	}
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
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wc[0], err
	}
	return wc[0], wc[0].Err()
}

// Endpoint is a queue pair and the objects that it needs.
type Endpoint struct {
	PD *ibv.PD
	CQ *ibv.CQ
	MR *ibv.MR
	QP *ibv.QP
	Closers
}

// NewEndpoint makes a queue pair for a number of work requests each way, and memory.
func NewEndpoint(dev *ibv.Device, t ibv.QPType, depth, bytes int) (_ *Endpoint, err error) {
	e := &Endpoint{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	defer Catch(&err)
	e.PD = Keep(&e.Closers, Must(dev.AllocPD()))
	e.CQ = Keep(&e.Closers, Must(dev.CreateCQ(2*depth, nil)))
	e.MR = Keep(&e.Closers, Must(e.PD.AllocMR(bytes, ibv.LocalWrite, nil)))
	opt := &ibv.QPOptions{Type: t, MaxSendWR: depth, MaxRecvWR: depth}
	e.QP = Keep(&e.Closers, Must(e.PD.CreateQP(e.CQ, e.CQ, opt)))
	return e, nil
}

// GRH is the size of the header in front of each datagram that is received: a GRH, or with RoCE v2 over IPv4 an IPv4
// header in its last 20 bytes.
const GRH = 40

// FitsMTU checks that a datagram of the size of a flag fits in one packet.
func FitsMTU(dev *ibv.Device, port uint8, flag string, size int) error {
	p, err := dev.QueryPort(port)
	if err != nil {
		return err
	}
	if mtu := p.ActiveMTU.Bytes(); size > mtu {
		return fmt.Errorf("%s %d: a datagram fits in one packet, and the MTU of the port is %d", flag, size, mtu)
	}
	return nil
}

// Messages describes the messages of a program.
type Messages struct {
	Kind        string // "message" or "datagram"
	Count, Size int
	Verify      bool
	Timeout
}

// Flags adds -C, -S, -V and --timeout.
func (m *Messages) Flags(f *Flags, leastCount, mostSize int) {
	f.Int(&m.Count, "count", "C", 10, leastCount, 1<<14, "`number` of "+m.Kind+"s, the same on both sides")
	f.Int(&m.Size, "size", "S", 100, 1, mostSize, "`bytes` in a "+m.Kind+", the same on both sides")
	f.BoolVarP(&m.Verify, "verify", "V", false, "check every byte; the sender has to be one of these examples")
	f.Timeout(&m.Timeout, "longest `time` without a "+m.Kind)
}

// Memory is how many bytes an Exchange needs.
func (m *Messages) Memory(header int) int { return m.Count * (header + 2*m.Size) }

// Fill makes the first bytes of b message n. It differs from byte to byte and from message to message.
func (m *Messages) Fill(b []byte, n int) {
	for i := range b[:m.Size] {
		b[i] = byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1
	}
}

// Check checks the size of message n, and with -V every byte.
func (m *Messages) Check(b []byte, n int) error {
	if len(b) != m.Size {
		return fmt.Errorf("%s %d has %d bytes, want %d: give both sides the same -S", m.Kind, n, len(b), m.Size)
	}
	if !m.Verify {
		return nil
	}
	want := make([]byte, m.Size)
	m.Fill(want, n)
	if err := Compare(b, want); err != nil {
		return fmt.Errorf("message %d: %w (is the peer one of these examples?)", n, err)
	}
	return nil
}

// PayloadError reports a message with wrong bytes.
type PayloadError struct {
	Offset    int // of the first wrong byte
	Got, Want byte
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("byte %d is %#02x, want %#02x", e.Offset, e.Got, e.Want)
}

// Compare compares messages of the same size, byte by byte. Its error is a *PayloadError.
func Compare(got, want []byte) error {
	for i := range got {
		if got[i] != want[i] {
			return &PayloadError{i, got[i], want[i]}
		}
	}
	return nil
}

// Checked is the end of a report: what -V has found.
func Checked(verify bool) string {
	if verify {
		return ", every byte as it should be"
	}
	return ""
}
