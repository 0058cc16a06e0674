package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Perftest 6.28, and only that one, exchanges its parameters in a C struct:
//
//	  0  i32 x7: method, connection, verb, test, atomic, type, unit
//	 32  u64 size, u64 messages
//	 48  i32 x7: crypto, queue pairs, duration, rdma_cm, imm, reorder, signature
//	 80  struct ibv_device_attr, 232 bytes in the host's own order
//	312  u64 mlx5 mask, in builds that know mlx5
//
// All but the device attributes is big endian. Later versions skip this for
// peers that call themselves older than 6.28, as we do; earlier ones lack it.
const (
	negotiateVersion = "6.28"
	negotiateLen     = 312
	negotiateLenMLX5 = 320

	negAttr         = 80
	negMaxQPRdAtom  = negAttr + 144 // ibv_device_attr.max_qp_rd_atom
	negVerbSend     = 0
	negVerbWrite    = 2
	negVerbWriteImm = 3
	negVerbRead     = 4
	negVerbAtomic   = 5
	negTestLat      = 0
	negTestBW       = 1
	negUnitGbit     = 0
	negUnitMiB      = 1
	negMethodOne    = 0
	negMethodAll    = 1
	negMethodNoEnd  = 2
	negTypeIters    = 0
	negTypeDuration = 1
	negDuration     = 5 // what perftest has there without -D
)

func (p Params) appendNegotiate(b []byte, maxReads int, long bool) []byte {
	n := negotiateLen
	if long {
		n = negotiateLenMLX5
	}
	m := make([]byte, n)
	pick := func(c bool, yes, no uint32) uint32 {
		if c {
			return yes
		}
		return no
	}
	be := binary.BigEndian
	be.PutUint32(m[0:], pick(p.Infinite, negMethodNoEnd, pick(p.All, negMethodAll, negMethodOne)))
	verb := map[Verb]uint32{Send: negVerbSend, Write: negVerbWrite, Read: negVerbRead, Atomic: negVerbAtomic,
		WriteImm: negVerbWriteImm}[p.Verb]
	be.PutUint32(m[4:], uint32(p.Transport))
	be.PutUint32(m[8:], verb)
	be.PutUint32(m[16:], uint32(p.Atomic))
	be.PutUint32(m[12:], pick(p.Metric == Bandwidth, negTestBW, negTestLat))
	be.PutUint32(m[20:], pick(p.Duration != 0, negTypeDuration, negTypeIters))
	be.PutUint32(m[24:], pick(p.Gbits, negUnitGbit, negUnitMiB))
	be.PutUint64(m[32:], p.Size)
	be.PutUint64(m[40:], p.Iters)
	be.PutUint32(m[52:], uint32(p.QPs))
	be.PutUint32(m[56:], pick(p.Duration != 0, uint32(p.Duration/time.Second), negDuration))
	be.PutUint32(m[64:], pick(p.Verb == WriteImm, 1, 0))
	binary.NativeEndian.PutUint32(m[negMaxQPRdAtom:], uint32(maxReads))
	return append(b, m...)
}

func parseNegotiate(b []byte, ours Params) (Params, error) {
	be := binary.BigEndian
	c := be.Uint32(b[4:])
	if c > 255 {
		return Params{}, fmt.Errorf("the peer uses connection type %d, which this rdmaperf does not know", c)
	}
	p := Params{
		Transport:     Transport(c),
		Atomic:        AtomicType(be.Uint32(b[16:]) & 0xff),
		All:           be.Uint32(b[0:]) == negMethodAll,
		Size:          be.Uint64(b[32:]),
		Iters:         be.Uint64(b[40:]),
		QPs:           int(int32(be.Uint32(b[52:]))),
		Bidirectional: ours.Bidirectional, // not sent
		Verify:        ours.Verify,
		ReportBoth:    ours.ReportBoth,
		Multicast:     ours.Multicast,
		Reversed:      ours.Reversed,
		PerPort:       ours.PerPort,
		Infinite:      be.Uint32(b[0:]) == negMethodNoEnd,
		Gbits:         be.Uint32(b[24:]) == negUnitGbit,
	}
	switch v := be.Uint32(b[8:]); v {
	case negVerbSend:
		p.Verb = Send
	case negVerbWrite:
		p.Verb = Write
	case negVerbWriteImm:
		p.Verb = WriteImm
	case negVerbRead:
		p.Verb = Read
	case negVerbAtomic:
		p.Verb = Atomic
	default:
		return Params{}, fmt.Errorf("the peer runs a test that this rdmaperf does not know (verb %d)", v)
	}
	switch m := be.Uint32(b[12:]); m {
	case negTestLat:
		p.Metric = Latency
	case negTestBW:
		p.Metric = Bandwidth
	default:
		return Params{}, fmt.Errorf("the peer runs a measurement that this rdmaperf does not know (%d)", m)
	}
	if be.Uint32(b[20:]) == negTypeDuration {
		p.Duration = time.Duration(be.Uint32(b[56:])) * time.Second
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
