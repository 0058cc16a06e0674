package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Perftest 6.28, and only that one, exchanges its parameters in a C struct. Later versions skip this for peers that
// call themselves older than 6.28, as we do; earlier ones lack it.
const (
	negotiateVersion = "6.28"
	negotiateLen     = 312
	negotiateLenMLX5 = 320 // with a mask of 8 bytes, in builds that know mlx5

	negMaxReads = 144 // offset of ibv_device_attr.max_qp_rd_atom
	negDuration = 5   // what perftest has there without -D
)

// negotiation is that struct, big endian but for the device's attributes, which have the host's own order.
type negotiation struct {
	Method                            uint32 // negAll, negNoEnd; 0: one size
	Transport, Verb, Metric, Atomic   uint32
	ByTime, MiB                       uint32
	_                                 uint32
	Size, Iters                       uint64
	Crypto, QPs, Seconds, RDMACM, Imm uint32
	Reorder, Signature                uint32
	_                                 uint32
	Attr                              [232]byte // struct ibv_device_attr
}

// The values of perftest, by their numbers.
var (
	negVerbs   = []Verb{Send, 0, Write, WriteImm, Read, Atomic}
	negMetrics = []Metric{Latency, Bandwidth}
)

const (
	negAll = 1 + iota
	negNoEnd
)

func (p Params) appendNegotiate(b []byte, maxReads int, long bool) []byte {
	flag := func(c bool) uint32 { return uint32(packed([]*bool{&c})) }
	imm := p.Verb == WriteImm
	m := negotiation{Transport: uint32(p.Transport), Verb: uint32(slices.Index(negVerbs, p.Verb)),
		Metric: uint32(slices.Index(negMetrics, p.Metric)), Atomic: uint32(p.Atomic), ByTime: flag(p.Duration != 0),
		MiB: flag(!p.Gbits), Size: p.Size, Iters: p.Iters, QPs: uint32(p.QPs), Seconds: negDuration, Imm: flag(imm)}
	switch {
	case p.Infinite:
		m.Method = negNoEnd
	case p.All:
		m.Method = negAll
	}
	if p.Duration != 0 {
		m.Seconds = uint32(p.Duration / time.Second)
	}
	binary.NativeEndian.PutUint32(m.Attr[negMaxReads:], uint32(maxReads))
	b, _ = binary.Append(b, binary.BigEndian, m)
	if long {
		b = append(b, make([]byte, negotiateLenMLX5-negotiateLen)...)
	}
	return b
}

func parseNegotiate(b []byte, ours Params) (Params, error) {
	var m negotiation
	binary.Decode(b, binary.BigEndian, &m) // it has the length
	if m.Transport > 255 {
		return Params{}, fmt.Errorf("the peer uses connection type %d, which this rdmaperf does not know", m.Transport)
	}
	if m.Verb >= uint32(len(negVerbs)) || negVerbs[m.Verb] == 0 {
		return Params{}, fmt.Errorf("the peer runs a test that this rdmaperf does not know (verb %d)", m.Verb)
	}
	if m.Metric >= uint32(len(negMetrics)) {
		return Params{}, fmt.Errorf("the peer runs a measurement that this rdmaperf does not know (%d)", m.Metric)
	}
	p := Params{Verb: negVerbs[m.Verb], Metric: negMetrics[m.Metric], Transport: Transport(m.Transport),
		Atomic: AtomicType(m.Atomic & 0xff), All: m.Method == negAll, Size: m.Size, Iters: m.Iters,
		QPs: int(int32(m.QPs)), Infinite: m.Method == negNoEnd, Gbits: m.MiB == 0,
		// What is not sent.
		Bidirectional: ours.Bidirectional, Verify: ours.Verify, ReportBoth: ours.ReportBoth,
		Multicast: ours.Multicast, Reversed: ours.Reversed, PerPort: ours.PerPort}
	if m.ByTime == 1 {
		p.Duration = time.Duration(m.Seconds) * time.Second
	}
	return p, nil
}

// negotiate is step 5 with perftest 6.28. Its message is longer in builds with
// mlx5; a server can see which one it is, a client has to know.
func (w *Conn) negotiate(h Hello) error {
	const step = "parameters of 6.28"
	in := make([]byte, negotiateLen, negotiateLenMLX5)
	long := !h.ShortNeg
	var err error
	if w.role == Server {
		if err = w.read(step, in, w.timeout); err != nil {
			return err
		}
		rest := in[negotiateLen:negotiateLenMLX5]
		w.c.SetReadDeadline(time.Now().Add(min(w.timeout, 300*time.Millisecond)))
		n, rerr := io.ReadFull(w.c, rest)
		if long = n == len(rest); !long && !(n == 0 && errors.Is(rerr, os.ErrDeadlineExceeded)) {
			return w.fail(step, w.explain(rerr, w.timeout, negotiateLen+n, negotiateLenMLX5))
		}
		err = w.write(step, h.Params.appendNegotiate(nil, h.MaxReads, long))
	} else {
		out := h.Params.appendNegotiate(nil, h.MaxReads, long)
		in = in[:len(out)]
		err = w.exchange(step, out, in, w.timeout)
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
