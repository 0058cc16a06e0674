package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"regexp"
	"strconv"
	"time"
)

// Role is the part of one end: it decides who writes first in each step.
type Role uint8

// The roles.
const (
	Client Role = 1
	Server Role = 2
)

// String returns the name of the role.
func (r Role) String() string {
	if r == Server {
		return "server"
	}
	return "client"
}

// Version is what we call ourselves: the last version of perftest whose
// exchange has no step 5.
const Version = "6.27"

const (
	versionLen = 16
	busyText   = "busy" // in place of a version; a stock peer calls it too old
	minVersion = 5.70   // older ones report in another format

	// A page is also the unit in which senders walk through the peer's memory: each
	// queue pair has two of them. No system that runs Linux has larger ones.
	maxPage  = 256 << 10
	maxCache = 4096
)

// What can go wrong, besides a *MismatchError.
var (
	// ErrSilent means that the peer said nothing for too long.
	ErrSilent = errors.New("the peer said nothing")
	// ErrClosed means that the peer closed the connection too early.
	ErrClosed = errors.New("the peer closed the connection")
	// ErrGarbage means that the peer said something that is not perftest's.
	ErrGarbage = errors.New("the peer does not speak perftest's protocol")
	// ErrBusy means that the server is serving another client.
	ErrBusy = errors.New("the server is busy with another client")
)

// ExchangeError says at which step of the exchange with whom something failed.
// Err wraps one of the errors above, a *MismatchError, or one of the network.
type ExchangeError struct {
	Peer string
	Step string
	Err  error
}

// Error returns one line.
func (e *ExchangeError) Error() string {
	return fmt.Sprintf("exchange with %s, %s: %v", e.Peer, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *ExchangeError) Unwrap() error { return e.Err }

// Conn is one end of the exchange. It is not safe for concurrent use, except
// Close. Every method but Close returns an *ExchangeError if it fails, and the
// connection is of no use after that.
type Conn struct {
	c       net.Conn
	role    Role
	timeout time.Duration
	ctx     context.Context
	unhook  func() bool
	gid     bool
	structs bool
	ours    bool
	version float64
	peer    string
}

// NewConn wraps a connected socket, which it owns from then on. A step that
// takes longer than timeout fails, except those that wait for the end of a run.
// When ctx ends, a step in progress does, too.
func NewConn(ctx context.Context, c net.Conn, role Role, timeout time.Duration) *Conn {
	w := &Conn{c: c, role: role, timeout: timeout, ctx: ctx, peer: c.RemoteAddr().String()}
	w.unhook = context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	return w
}

// Close closes the socket.
func (w *Conn) Close() error {
	w.unhook()
	return w.c.Close()
}

// Peer returns the address of the peer.
func (w *Conn) Peer() string { return w.peer }

// Ours tells whether the peer is one of us. It is known after Hello.
func (w *Conn) Ours() bool { return w.ours }

func (w *Conn) fail(step string, err error) error {
	if ctxErr := context.Cause(w.ctx); ctxErr != nil {
		err = ctxErr
	}
	return &ExchangeError{w.peer, step, err}
}

// exchange is one step. With wait it has no deadline of its own.
func (w *Conn) exchange(step string, out, in []byte, wait bool) error {
	if w.role == Client {
		if err := w.write(step, out); err != nil {
			return err
		}
		return w.read(step, in, wait)
	}
	if err := w.read(step, in, wait); err != nil {
		return err
	}
	return w.write(step, out)
}

func (w *Conn) deadline(wait bool) {
	t := time.Time{}
	if !wait {
		t = time.Now().Add(w.timeout)
	}
	w.c.SetDeadline(t)
	if w.ctx.Err() != nil { // it may have ended just before
		w.c.SetDeadline(time.Unix(1, 0))
	}
}

func (w *Conn) write(step string, b []byte) error {
	w.deadline(false)
	if _, err := w.c.Write(b); err != nil {
		return w.fail(step, w.explain(err, 0, 0))
	}
	return nil
}

func (w *Conn) read(step string, b []byte, wait bool) error {
	w.deadline(wait)
	if n, err := io.ReadFull(w.c, b); err != nil {
		return w.fail(step, w.explain(err, n, len(b)))
	}
	return nil
}

// explain names the usual reasons, and how much had come before.
func (w *Conn) explain(err error, got, want int) error {
	part := ""
	if got > 0 {
		part = fmt.Sprintf(" after %d of %d bytes", got, want)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w for %v%s; is it the same test, on the same port?", ErrSilent, w.timeout, part)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isReset(err):
		return fmt.Errorf("%w%s; it failed, was stopped, or runs another test (see its output)", ErrClosed, part)
	}
	return err
}

// Hello is what one end says about itself in steps 1 to 5.
type Hello struct {
	PageSize  int
	CacheLine int
	MTU       int // value of ibv_mtu, 1 to 5
	Params    Params
	MaxReads  int // the device's limit of outstanding reads, for 6.28
	ShortNeg  bool
}

// Agreed is what both ends work with after Hello.
type Agreed struct {
	PeerVersion string
	Ours        bool // the peer is one of us
	PageSize    int
	CacheLine   int
	MTU         int
}

var versionForm = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,4}$`)

// Hello does steps 1 to 5. Where the peer tells its parameters, they are
// checked.
func (w *Conn) Hello(h Hello) (Agreed, error) {
	var a Agreed
	const step = "version"
	out := make([]byte, versionLen)
	copy(out, Version)
	// Stock peers stop reading at the zero.
	copy(out[versionLen-len(ourMagic):], ourMagic)
	in := make([]byte, versionLen)
	if err := w.exchange(step, out, in, false); err != nil {
		return a, err
	}
	text, _, _ := bytes.Cut(in, []byte{0})
	a.PeerVersion = string(text)
	if a.PeerVersion == busyText {
		return a, w.fail(step, ErrBusy)
	}
	if !versionForm.Match(text) {
		return a, w.fail(step, fmt.Errorf("%w: its version is %s, expected something like %q", ErrGarbage, quote(in), Version))
	}
	v, err := strconv.ParseFloat(a.PeerVersion, 64)
	if err != nil || v < minVersion {
		return a, w.fail(step, fmt.Errorf("%w of today: version %s, the oldest supported one is %.2f", ErrGarbage, a.PeerVersion, minVersion))
	}
	w.version = v
	w.ours = bytes.HasSuffix(in, []byte(ourMagic))
	a.Ours = w.ours

	if a.PageSize, err = w.maxInt("page size", h.PageSize, maxPage); err != nil {
		return a, err
	}
	if a.CacheLine, err = w.maxInt("cache line size", h.CacheLine, maxCache); err != nil {
		return a, err
	}
	mtu := []byte{byte('0' + h.MTU), 0}
	got := make([]byte, 2)
	if err := w.exchange("MTU", mtu, got, false); err != nil {
		return a, err
	}
	peerMTU := int(got[0]) - '0'
	if got[1] != 0 || peerMTU < 1 || peerMTU > 5 {
		return a, w.fail("MTU", fmt.Errorf("%w: its MTU is %s, expected \"1\" to \"5\"", ErrGarbage, quote(got)))
	}
	a.MTU = min(h.MTU, peerMTU)

	switch {
	case w.ours:
		return a, w.params(h.Params)
	case a.PeerVersion == negotiateVersion:
		return a, w.negotiate(h)
	}
	return a, nil
}

// maxInt exchanges a 32-bit number; the larger one counts.
func (w *Conn) maxInt(step string, own, most int) (int, error) {
	out, in := make([]byte, 4), make([]byte, 4)
	binary.BigEndian.PutUint32(out, uint32(own))
	if err := w.exchange(step, out, in, false); err != nil {
		return 0, err
	}
	v := binary.BigEndian.Uint32(in)
	if v == 0 || v > uint32(most) {
		return 0, w.fail(step, fmt.Errorf("%w: its %s is %d, expected 1 to %d", ErrGarbage, step, v, most))
	}
	return max(own, int(v)), nil
}

func (w *Conn) params(p Params) error {
	in := make([]byte, paramsLen)
	if err := w.exchange("parameters", p.append(nil), in, false); err != nil {
		return err
	}
	peer, err := parseParams(in)
	if err != nil {
		return w.fail("parameters", fmt.Errorf("%w: %v", ErrGarbage, err))
	}
	if err := p.Check(peer); err != nil {
		return w.fail("parameters", err)
	}
	return nil
}

// negotiate is step 5 with perftest 6.28. Its message is longer in builds with
// mlx5; a server can see which one it is, a client has to know.
func (w *Conn) negotiate(h Hello) error {
	const step = "parameters of 6.28"
	in := make([]byte, negotiateLen, negotiateLenMLX5)
	long := !h.ShortNeg
	var err error
	if w.role == Server {
		if err = w.read(step, in, false); err != nil {
			return err
		}
		rest := in[negotiateLen:negotiateLenMLX5]
		w.c.SetReadDeadline(time.Now().Add(min(w.timeout, 300*time.Millisecond)))
		n, rerr := io.ReadFull(w.c, rest)
		if long = n == len(rest); !long && !(n == 0 && errors.Is(rerr, os.ErrDeadlineExceeded)) {
			return w.fail(step, w.explain(rerr, negotiateLen+n, negotiateLenMLX5))
		}
		err = w.write(step, h.Params.appendNegotiate(nil, h.MaxReads, long))
	} else {
		out := h.Params.appendNegotiate(nil, h.MaxReads, long)
		in = in[:len(out)]
		err = w.exchange(step, out, in, false)
	}
	if err != nil {
		return err
	}
	peer, err := parseNegotiate(in, h.Params)
	if err != nil {
		return w.fail(step, err)
	}
	if err := h.Params.Check(peer); err != nil {
		return w.fail(step, err)
	}
	return nil
}

// UseGID decides between the two forms of keys: with a GID, as always on
// Ethernet, or without.
func (w *Conn) UseGID(yes bool) { w.gid = yes }

// UseStructs makes keys binary, as over rdma_cm.
func (w *Conn) UseStructs() { w.structs = true }

// Watch looks out for the end of the connection while nobody reads from it, and
// calls gone once when the peer closes it or it breaks. It gives up when the
// peer sends something: then the peer has come to the next step. The function
// that Watch returns ends the watch and must be called before the next step.
func (w *Conn) Watch(gone func(error)) (stop func()) {
	if v, ok := w.c.(interface{ Watch(func()) (stop func()) }); ok {
		return v.Watch(func() { gone(w.leftEarly()) })
	}
	return w.watchSocket(gone)
}

func (w *Conn) leftEarly() error {
	return w.fail("watch", fmt.Errorf("%w in the middle of the run", ErrClosed))
}

// Keys exchanges the data of one queue pair.
func (w *Conn) Keys(step string, own Dest) (Dest, error) {
	return w.keys(step, own, false)
}

// Barrier exchanges the data of a queue pair once more, to meet the peer. It
// waits without limit, until the peer closes the connection or ctx ends.
func (w *Conn) Barrier(step string, own Dest) error {
	_, err := w.keys(step, own, true)
	return err
}

func (w *Conn) keys(step string, own Dest, wait bool) (Dest, error) {
	out := own.appendKey(nil, w.gid)
	if w.structs {
		out = own.appendStruct(nil, w.version >= longVersion)
	}
	if w.role == Client {
		if err := w.write(step, out); err != nil {
			return Dest{}, err
		}
	}
	peer, err := w.readKey(step, wait)
	if err != nil {
		return Dest{}, err
	}
	if w.role == Server {
		if err := w.write(step, out); err != nil {
			return Dest{}, err
		}
	}
	return peer, nil
}

// readKey reads the short form first: a peer that uses the other form than we
// do would otherwise leave us waiting for the rest.
func (w *Conn) readKey(step string, wait bool) (Dest, error) {
	if w.structs {
		return w.readStruct(step, wait)
	}
	in := make([]byte, keyLenGID)
	if err := w.read(step, in[:keyLenLID], wait); err != nil {
		return Dest{}, err
	}
	lid := in[keyLenLID-1] == 0
	switch {
	case lid && w.gid:
		return Dest{}, w.fail(step, errors.New("the peer gave no GID, this side uses one; give a GID index (-x) at both ends or at none"))
	case !lid && !w.gid:
		return Dest{}, w.fail(step, errors.New("the peer gave a GID, this side uses none; give a GID index (-x) at both ends or at none"))
	case !lid:
		if err := w.read(step, in[keyLenLID:], false); err != nil {
			return Dest{}, err
		}
	default:
		in = in[:keyLenLID]
	}
	peer, err := parseKey(in, w.gid)
	if err != nil {
		return Dest{}, w.fail(step, fmt.Errorf("%w: %v", ErrGarbage, err))
	}
	return peer, nil
}

func (w *Conn) readStruct(step string, wait bool) (Dest, error) {
	in := make([]byte, structLen)
	if w.version >= longVersion {
		in = make([]byte, structLenLong)
	}
	if err := w.read(step, in, wait); err != nil {
		return Dest{}, err
	}
	d, err := parseStruct(in)
	if err != nil {
		return Dest{}, w.fail(step, fmt.Errorf("%w: %w", ErrGarbage, err))
	}
	return d, nil
}

// Report is what ends of a bandwidth test tell each other about a run. The
// unit of PeakBW and AvgBW is that of the end that sends them (MiB/s, or Gb/s),
// and is not told; MsgRate is in millions per second.
type Report struct {
	Size    uint64
	Iters   uint64
	PeakBW  float64
	AvgBW   float64
	MsgRate float64
}

// Reports exchanges the reports.
func (w *Conn) Reports(own Report) (Report, error) {
	var peer Report
	f := math.Float64bits
	for _, x := range []struct {
		name string
		own  uint64
		set  func(uint64)
	}{
		{"size", own.Size, func(v uint64) { peer.Size = v }},
		{"messages", own.Iters, func(v uint64) { peer.Iters = v }},
		{"peak", f(own.PeakBW), func(v uint64) { peer.PeakBW = math.Float64frombits(v) }},
		{"average", f(own.AvgBW), func(v uint64) { peer.AvgBW = math.Float64frombits(v) }},
		{"rate", f(own.MsgRate), func(v uint64) { peer.MsgRate = math.Float64frombits(v) }},
	} {
		out, in := make([]byte, 8), make([]byte, 8)
		binary.BigEndian.PutUint64(out, x.own)
		// In a bidirectional run the peer may still be busy with its part.
		if err := w.exchange("report of "+x.name, out, in, true); err != nil {
			return peer, err
		}
		x.set(binary.BigEndian.Uint64(in))
	}
	return peer, nil
}

// Finish meets the peer for the last time and closes the connection.
func (w *Conn) Finish(own Dest) error {
	if err := w.Barrier("end", own); err != nil {
		return err
	}
	if w.structs {
		// A stock client waits for its server here, and a stock server for nobody.
		if w.role == Client {
			return w.Close()
		}
		return w.AwaitClose(time.Second)
	}
	// Old perftests say goodbye and nobody listens; closing with their word
	// unread would reset the connection under the peer's last read.
	w.c.SetDeadline(time.Now().Add(time.Second))
	w.c.Write([]byte("done\x00"))
	return w.drain()
}

// AwaitClose waits, at most for d, until the peer closes the connection. It is
// the end of a test in which the exchange has none.
func (w *Conn) AwaitClose(d time.Duration) error {
	w.c.SetDeadline(time.Now().Add(d))
	return w.drain()
}

func (w *Conn) drain() error {
	if t, ok := w.c.(interface{ CloseWrite() error }); ok {
		t.CloseWrite()
	}
	io.Copy(io.Discard, io.LimitReader(w.c, 4096))
	return w.Close()
}
