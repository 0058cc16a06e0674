package ibv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// rawSide is a raw packet QP that is ready to send and to receive, with receives posted.
type rawSide struct {
	*side
	mac  MAC
	next uint64 // ID of the next receive
}

const (
	rawRecvs = 64
	rawSlot  = 2048 // bytes of a receive; the first rawRecvs slots of the MR
	rawSend  = rawRecvs * rawSlot
)

// rawPair makes a raw packet QP on each device. On SoftRoCE, which has none, and for a program without CAP_NET_RAW it
// looks at the refusal and returns nil.
func rawPair(t *testing.T, a, b RawOptions) (*rawSide, *rawSide) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated && !rxe.Hardware {
		s := newSide(t, 0, nil)
		_, err := s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: RawPacket})
		wantErr(t, err, ErrNotSupported, "RawPacket")
		return nil, nil
	}
	if rxe.NeedFrames(t); os.Geteuid() != 0 {
		s := newSide(t, 0, nil)
		_, err := s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: RawPacket})
		wantErr(t, err, syscall.EPERM, "CAP_NET_RAW")
		return nil, nil
	}
	return newRawSide(t, 0, a), newRawSide(t, 1, b)
}

func newRawSide(t *testing.T, i int, o RawOptions) *rawSide { return newRawSideOn(t, i, o, nil) }

// newRawSideOn is newRawSide with a CQ of these options.
func newRawSideOn(t *testing.T, i int, o RawOptions, cq *CQOptions) *rawSide {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	rxe.NeedFrames(t)
	s := &rawSide{side: newSide(t, i, cq)}
	s.newQP(t, &QPOptions{Type: RawPacket, MaxSendSGE: 3, MaxInline: 200, MaxRecvWR: rawRecvs, Raw: o})
	rawReady(t, s.qp)
	s.mac = macOf(t, s.dev)
	for id := range uint64(rawRecvs) {
		s.post(t, id)
	}
	return s
}

// rawReady brings a raw packet QP into use.
func rawReady(t testing.TB, qp *QP) {
	t.Helper()
	ok(t, qp.Modify(&QPAttr{State: StateInit, Port: 1}, MaskState|MaskPort))
	ok(t, qp.Modify(&QPAttr{State: StateRTR}, MaskState))
	ok(t, qp.Modify(&QPAttr{State: StateRTS}, MaskState))
}

// macOf returns the address of port 1, which its link-local GID contains.
func macOf(t testing.TB, d *Device) MAC {
	t.Helper()
	g := must(d.QueryGID(1, 0))(t)
	return MAC{g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}
}

func (s *rawSide) post(t testing.TB, id uint64) {
	t.Helper()
	recv(t, s.qp, RecvWR{ID: id, SGEs: []SGE{s.mr.SGE(int(id)*rawSlot, rawSlot)}})
}

// rule leads frames to the QP until the end of the test.
func (s *rawSide) rule(t *testing.T, a FlowAttr) *Flow {
	t.Helper()
	a.Port = 1
	f := must(s.qp.CreateFlow(&a))(t)
	t.Cleanup(func() { ok(t, f.Close()) })
	return f
}

// own is the match of the frames to the port's own address.
func (s *rawSide) own() FlowEth {
	all := MAC{255, 255, 255, 255, 255, 255}
	return FlowEth{Value: FlowEthFields{DstMAC: s.mac}, Mask: FlowEthFields{DstMAC: all}}
}

// send posts a frame and waits for its completion.
func (s *rawSide) send(t testing.TB, frame []byte, flags SendFlags) {
	t.Helper()
	copy(s.mr.Bytes()[rawSend:], frame)
	post(t, s.qp, SendWR{ID: 99, Opcode: OpSend, Flags: Signaled | flags, SGEs: []SGE{s.mr.SGE(rawSend, len(frame))}})
	s.sent(t, WCSend)
}

func (s *rawSide) sent(t testing.TB, op WCOpcode) {
	t.Helper()
	if wc := s.good(t, 99); wc.Opcode != op {
		t.Fatalf("completion of %v, want %v", wc.Opcode, op)
	}
}

// frame waits for a frame and returns a copy of it.
func (s *rawSide) frame(t testing.TB) ([]byte, WC) {
	t.Helper()
	wc := s.good(t, s.next)
	b := bytes.Clone(s.mr.Bytes()[int(wc.ID)*rawSlot:][:wc.ByteLen])
	s.next = (s.next + 1) % rawRecvs
	s.post(t, wc.ID)
	return b, wc
}

// none fails if a frame has come. What was sent before was delivered before its completion.
func (s *rawSide) none(t testing.TB) {
	t.Helper()
	var wc [1]WC
	if n, err := s.cq.Poll(wc[:]); n != 0 || err != nil {
		t.Fatalf("a frame that was not for this QP: %+v, %v", wc[0], err)
	}
}

// ethernet returns a frame with n bytes of data that depend on seed.
func ethernet(dst, src MAC, etherType uint16, n, seed int) []byte {
	b := append(append(dst[:], src[:]...), byte(etherType>>8), byte(etherType))
	b = append(b, make([]byte, n)...)
	fill(b[14:], seed)
	return b
}

// packet returns a frame with an IP packet of TCP or UDP, whose checksums are 0.
func packet(dst, src MAC, v6, tcp bool, n int) []byte {
	l4 := make([]byte, 8)
	proto := byte(17)
	if tcp {
		l4, proto = make([]byte, 20), 6
		binary.BigEndian.PutUint32(l4[4:], 0xfffffff0) // it wraps
		l4[12], l4[13] = 5<<4, 0x80|0x18|0x01          // CWR, PSH, ACK, FIN
	} else {
		binary.BigEndian.PutUint16(l4[4:], uint16(8+n))
	}
	binary.BigEndian.PutUint16(l4, 4000)
	binary.BigEndian.PutUint16(l4[2:], 5000)
	l4 = append(l4, make([]byte, n)...)
	fill(l4[len(l4)-n:], 3)
	var ip []byte
	kind := uint16(0x0800)
	if v6 {
		kind = 0x86dd
		ip = append([]byte{0x60, 0, 0, 0, 0, 0, proto, 64}, make([]byte, 32)...)
		binary.BigEndian.PutUint16(ip[4:], uint16(len(l4)))
		ip[8], ip[23], ip[24], ip[39] = 0xfd, 1, 0xfd, 2
	} else {
		ip = []byte{0x45, 8, 0, 0, 0x12, 0x34, 0x40, 0, 64, proto, 0, 0, 10, 1, 0, 1, 10, 1, 0, 2}
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(l4)))
	}
	b := ethernet(dst, src, kind, 0, 0)
	return append(append(b, ip...), l4...)
}

// onesSum is the checksum of the Internet, word by word.
func onesSum(parts ...[]byte) uint16 {
	var s uint64
	for _, b := range parts {
		for i := 0; i+1 < len(b); i += 2 {
			s += uint64(binary.BigEndian.Uint16(b[i:]))
		}
		if len(b)%2 == 1 {
			s += uint64(b[len(b)-1]) << 8
		}
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// checksums fails if the checksums of a packet are wrong.
func checksums(t testing.TB, b []byte) {
	t.Helper()
	ip := b[14:]
	l4, proto, addrs := ip[40:], ip[6], ip[8:40]
	if ip[0]>>4 == 4 {
		n := int(ip[0]&15) * 4
		l4, proto, addrs = ip[n:binary.BigEndian.Uint16(ip[2:])], ip[9], ip[12:20]
		if s := onesSum(ip[:n]); s != 0xffff {
			t.Errorf("the sum of the IPv4 header is %#04x", s)
		}
	} else {
		l4 = l4[:binary.BigEndian.Uint16(ip[4:])]
	}
	pseudo := []byte{0, proto, byte(len(l4) >> 8), byte(len(l4))}
	if s := onesSum(addrs, pseudo, l4); s != 0xffff {
		t.Errorf("the sum over protocol %d of IPv%d is %#04x", proto, ip[0]>>4, s)
	}
}

func TestRXE_Raw(t *testing.T) {
	a, b := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return
	}
	b.rule(t, FlowAttr{Specs: []FlowSpec{b.own()}})
	for _, n := range []int{46, 47, 500, 1500} {
		want := ethernet(b.mac, a.mac, 0x88b5, n, n)
		a.send(t, want, 0)
		got, wc := b.frame(t)
		if !bytes.Equal(got, want) || wc.Opcode != WCRecv || wc.QPN != 0 || wc.Flags&WCIPCsumOK != 0 {
			t.Errorf("%d bytes: %x, %+v", n, got[:60], wc)
		}
	}
	t.Run("padded", func(t *testing.T) {
		want := ethernet(b.mac, a.mac, 0x88b5, 4, 1)
		a.send(t, want, 0)
		if got, _ := b.frame(t); !bytes.Equal(got, append(want, make([]byte, 60-len(want))...)) {
			t.Errorf("%x", got)
		}
	})
	t.Run("pieces", func(t *testing.T) {
		want := ethernet(b.mac, a.mac, 0x88b5, 400, 9)
		copy(a.mr.Bytes()[rawSend:], want)
		at := func(from, to int) SGE { return a.mr.SGE(rawSend+from, to-from) }
		post(t, a.qp, SendWR{ID: 99, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{at(0, 9), at(9, 20), at(20, 414)}})
		a.sent(t, WCSend)
		if got, _ := b.frame(t); !bytes.Equal(got, want) {
			t.Errorf("%x", got)
		}
		post(t, a.qp, SendWR{ID: 99, Opcode: OpSend, Flags: Signaled, Inline: want[:180]})
		a.sent(t, WCSend)
		if got, _ := b.frame(t); !bytes.Equal(got, want[:180]) {
			t.Errorf("inline: %x", got)
		}
	})
	t.Run("checksums", func(t *testing.T) {
		for _, v6 := range []bool{false, true} {
			for _, tcp := range []bool{false, true} {
				want := packet(b.mac, a.mac, v6, tcp, 701)
				a.send(t, want, 0)
				got, wc := b.frame(t)
				if !bytes.Equal(got, want) || wc.Flags&WCIPCsumOK != 0 {
					t.Errorf("v6 %v, tcp %v: %+v", v6, tcp, wc)
				}
				a.send(t, want, IPCsum)
				got, wc = b.frame(t)
				checksums(t, got)
				// libmlx5 looks at IPv4 alone.
				if (wc.Flags&WCIPCsumOK != 0) != !v6 || len(got) != len(want) {
					t.Errorf("v6 %v, tcp %v: %+v", v6, tcp, wc)
				}
			}
		}
	})
	t.Run("others", func(t *testing.T) { // frames for nobody, and for the sender
		a.rule(t, FlowAttr{Specs: []FlowSpec{a.own()}})
		a.send(t, ethernet(MAC{2, 9, 9, 9, 9, 9}, a.mac, 0x88b5, 50, 0), 0)
		a.send(t, ethernet(a.mac, a.mac, 0x88b5, 50, 0), 0)
		b.none(t)
		a.none(t)
	})
	t.Run("allocations", func(t *testing.T) {
		send := []SendWR{{ID: 99, Opcode: OpSend, Flags: Signaled | IPCsum, SGEs: []SGE{a.mr.SGE(rawSend, 60)}}}
		again := []RecvWR{{SGEs: []SGE{b.mr.SGE(0, rawSlot)}}}
		wait := func(cq *CQ) {
			for wcs := make([]WC, 1); ; {
				switch n, err := cq.Poll(wcs); {
				case err != nil || n > 0 && wcs[0].Status != WCSuccess:
					t.Fatalf("%+v, %v", wcs[0], err)
				case n > 0:
					return
				}
				runtime.Gosched()
			}
		}
		copy(a.mr.Bytes()[rawSend:], ethernet(b.mac, a.mac, 0x88b5, 46, 1))
		if n := testing.AllocsPerRun(50, func() {
			post(t, a.qp, send...)
			wait(a.cq)
			wait(b.cq)
			recv(t, b.qp, again...)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
	t.Run("reset", func(t *testing.T) {
		ok(t, b.qp.Modify(&QPAttr{State: StateReset}, MaskState))
		a.send(t, ethernet(b.mac, a.mac, 0x88b5, 50, 0), 0)
		b.none(t)
		rawReady(t, b.qp)
		b.next = 7
		b.post(t, 7)
		a.send(t, ethernet(b.mac, a.mac, 0x88b5, 50, 5), 0)
		b.frame(t)
	})
	t.Run("device memory", func(t *testing.T) { // a piece of what is sent, and all that comes
		const head = 20 // an adapter may want the processor to write the header to the WQE
		want := ethernet(b.mac, a.mac, 0x88b5, 402, 3)
		in := func(s *rawSide) (*DM, *MR) {
			dm := closing(t, must(s.dev.AllocDM(512, nil))(t))
			return dm, closing(t, must(s.pd.RegDM(dm, 0, 512, LocalWrite))(t))
		}
		dma, mra := in(a)
		dmb, mrb := in(b)
		copy(a.mr.Bytes()[rawSend:], want)
		clear(a.mr.Bytes()[rawSend+head:][:200])
		must(dma.WriteAt(want[head:head+200], 8))(t)
		ok(t, b.qp.Modify(&QPAttr{State: StateReset}, MaskState))
		rawReady(t, b.qp)
		recv(t, b.qp, RecvWR{ID: 8, SGEs: []SGE{mrb.SGE(0, 512)}})
		post(t, a.qp, SendWR{ID: 99, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(rawSend, head),
			mra.SGE(8, 200), a.mr.SGE(rawSend+head+200, len(want)-head-200)}})
		a.sent(t, WCSend)
		b.good(t, 8)
		got := make([]byte, len(want))
		must(dmb.ReadAt(got, 0))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%x", got)
		}
	})
	if _, err := b.qp.PostSend([]SendWR{{Opcode: OpTSO, TSO: &TSO{Header: make([]byte, 54), MSS: 9}}}); err == nil {
		t.Error("TSO on a QP that was made without it")
	}
	wantBusy(t, b.qp)
}

// wantBusy fails unless the QP says that a flow keeps it open.
func wantBusy(t testing.TB, qp *QP) {
	t.Helper()
	var be *BusyError
	if err := qp.Close(); !errors.As(err, &be) {
		t.Errorf("closing the QP of a flow: %v", err)
	}
}

// TestRXE_RawCQs: frames whose tag is the number of the QP, or of another one, complete as what they are, with one CQ
// and with two. On the direct data path the CQ that they complete on has no other queue.
func TestRXE_RawCQs(t *testing.T) {
	a, b := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return
	}
	direct := false
	if path, _ := b.cq.DataPath(); path == DataPathDirect {
		direct = true
	}
	sends := closing(t, must(b.dev.CreateCQ(64, nil))(t))
	rc := closing(t, must(b.pd.CreateQP(sends, sends, nil))(t))
	ok(t, b.qp.Close())
	for _, c := range []struct {
		name string
		send *CQ
	}{{"one CQ", b.cq}, {"two", sends}} {
		t.Run(c.name, func(t *testing.T) {
			b.qp = must(b.pd.CreateQP(c.send, b.cq, &QPOptions{Type: RawPacket, MaxRecvWR: rawRecvs}))(t)
			ok(t, b.qp.Modify(&QPAttr{State: StateInit, Port: 1}, MaskState|MaskPort))
			b.next = 0
			for id := range uint64(rawRecvs) {
				b.post(t, id) // the device learns of them in RTR
			}
			ok(t, b.qp.Modify(&QPAttr{State: StateRTR}, MaskState))
			ok(t, b.qp.Modify(&QPAttr{State: StateRTS}, MaskState))
			all := MAC{255, 255, 255, 255, 255, 255}
			kinds := map[uint16]uint32{0x88b5: b.qp.Num(), 0x88b6: 1, 0x88b7: 0xfffffe, 0x88b8: rc.Num()}
			for kind, tag := range kinds {
				f := must(b.qp.CreateFlow(&FlowAttr{Port: 1, Specs: []FlowSpec{FlowEth{
					Value: FlowEthFields{DstMAC: b.mac, EtherType: kind},
					Mask:  FlowEthFields{DstMAC: all, EtherType: 0xffff}}, FlowTag(tag)}}))(t)
				defer func() { ok(t, f.Close()) }()
			}
			for i := range 40 {
				kind := uint16(0x88b5 + i*i%4)
				want := ethernet(b.mac, a.mac, kind, 60, i)
				a.send(t, want, 0)
				got, wc := b.frame(t)
				if !bytes.Equal(got, want) || wc.QPN != kinds[kind] || wc.Opcode != WCRecv {
					t.Errorf("%d: %+v, want the tag %#x", i, wc, kinds[kind])
				}
				post(t, b.qp, SendWR{ID: 5, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{b.mr.SGE(rawSend, 60)}})
				var wcs [1]WC
				if must(c.send.Wait(timeout(t), wcs[:]))(t); wcs[0].ID != 5 || wcs[0].QPN != b.qp.Num() ||
					wcs[0].Opcode != WCSend || wcs[0].Status != WCSuccess {
					t.Errorf("%d: %+v of QP %#x", i, wcs[0], b.qp.Num())
				}
			}
			if direct {
				for _, o := range []*QPOptions{nil, {Type: RawPacket}} {
					_, err := b.pd.CreateQP(b.cq, b.cq, o)
					wantErr(t, err, ErrNotSupported, "a CQ for each", "DataPathOps")
				}
				_, err := b.pd.CreateQP(sends, sends, &QPOptions{Type: RawPacket})
				wantErr(t, err, ErrNotSupported, "a CQ for each", "in use")
				_, err = b.pd.CreateWQ(b.cq, nil)
				wantErr(t, err, ErrNotSupported, "a CQ for each", "in use")
			}
		})
		// Receives that are flushed, and that nobody polls, go with the QP.
		ok(t, b.qp.Modify(&QPAttr{State: StateErr}, MaskState))
		if wc := b.cq; direct && c.send == b.cq {
			var wcs [1]WC
			if must(wc.Wait(timeout(t), wcs[:]))(t); wcs[0].Status != WCWRFlushErr {
				t.Errorf("%+v", wcs[0])
			}
		}
		ok(t, b.qp.Close())
		b.none(t)
		ok(t, must(b.pd.CreateQP(b.cq, b.cq, nil))(t).Close())
	}
	// A QP that only sends needs no CQ of its own.
	qp := must(b.pd.CreateQP(sends, sends, &QPOptions{Type: RawPacket, MaxRecvWR: None}))(t)
	rawReady(t, qp)
	post(t, qp, SendWR{ID: 6, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{b.mr.SGE(rawSend, 60)}})
	var wcs [1]WC
	if must(sends.Wait(timeout(t), wcs[:]))(t); wcs[0].ID != 6 || wcs[0].QPN != qp.Num() {
		t.Errorf("%+v of QP %#x", wcs[0], qp.Num())
	}
	_, err := qp.PostSend([]SendWR{{Opcode: OpSend}})
	wantErr(t, err, syscall.EINVAL)
	ok(t, qp.Close())
}

// tsoPair is rawPair with a sender that posts TSO. On the ops data path, where libmlx5 would damage some of the frames,
// it looks at the refusal and returns nil.
func tsoPair(t *testing.T, o QPOptions) (*rawSide, *rawSide) {
	t.Helper()
	a, b := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return nil, nil
	}
	o.Type = RawPacket
	if path, _ := a.cq.DataPath(); path == DataPathOps {
		for _, n := range []int{1, 34, o.Raw.MaxTSOHeader} {
			o.Raw.MaxTSOHeader = n
			_, err := a.pd.CreateQP(a.cq, a.cq, &o)
			wantErr(t, err, ErrNotSupported, "TSO", "direct data path", "goes round the end")
		}
		return nil, nil
	}
	ok(t, a.qp.Close())
	a.newQP(t, &o)
	rawReady(t, a.qp)
	b.rule(t, FlowAttr{Specs: []FlowSpec{b.own()}})
	return a, b
}

// tso posts data with a header, and compares the frames that come of it with a model.
func (s *rawSide) tso(t *testing.T, to *rawSide, head []byte, mss int, data []byte, list ...SGE) {
	t.Helper()
	post(t, s.qp, SendWR{ID: 99, Opcode: OpTSO, Flags: Signaled | IPCsum, TSO: &TSO{Header: head, MSS: uint16(mss)},
		SGEs: list})
	s.sent(t, WCTSO)
	ip, l4 := head[14:], 14+40
	if ip[0]>>4 == 4 {
		l4 = 14 + int(ip[0]&15)*4
	}
	for off, id := 0, binary.BigEndian.Uint16(ip[4:]); off < len(data); off, id = off+mss, id+1 {
		part := data[off:min(len(data), off+mss)]
		want := append(bytes.Clone(head), part...)
		if ip[0]>>4 == 4 {
			binary.BigEndian.PutUint16(want[14+2:], uint16(len(ip)+len(part)))
			binary.BigEndian.PutUint16(want[14+4:], id)
		} else {
			binary.BigEndian.PutUint16(want[14+4:], uint16(len(ip)-40+len(part)))
		}
		binary.BigEndian.PutUint32(want[l4+4:], binary.BigEndian.Uint32(head[l4+4:])+uint32(off))
		if off > 0 {
			want[l4+13] &^= 0x80
		}
		if off+mss < len(data) {
			want[l4+13] &^= 0x09
		}
		got, wc := to.frame(t)
		checksums(t, got)
		if ip[0]>>4 == 4 {
			copy(got[14+10:], []byte{0, 0})
		}
		copy(got[l4+16:], []byte{0, 0})
		want = append(want, make([]byte, max(0, 60-len(want)))...)
		if !bytes.Equal(got, want) {
			t.Fatalf("header of %d bytes, at %d of %d:\n%x\n%x, %+v", len(head), off, len(data), got[:60], want[:60],
				wc)
		}
	}
}

func TestRXE_RawTSO(t *testing.T) {
	a, b := tsoPair(t, QPOptions{MaxSendSGE: 3, MaxInline: 200, Raw: RawOptions{MaxTSOHeader: 128}})
	if a == nil {
		return
	}
	for _, v6 := range []bool{false, true} {
		for _, n := range []int{1, 1000, 1001, 5000, 30001} {
			t.Run(fmt.Sprint(v6, n), func(t *testing.T) {
				data := a.mr.Bytes()[rawSend:][:n]
				fill(data, n)
				a.tso(t, b, packet(b.mac, a.mac, v6, true, 0), 1000, data, a.mr.SGE(rawSend, n/2),
					a.mr.SGE(rawSend+n/2, n-n/2))
				b.none(t)
			})
		}
	}
	t.Run("limits", func(t *testing.T) {
		head := packet(b.mac, a.mac, false, true, 0)
		for _, c := range []struct {
			wr   SendWR
			want string
		}{
			{SendWR{}, "TSO is nil"},
			{SendWR{TSO: &TSO{Header: head}}, "MSS is 0"},
			{SendWR{TSO: &TSO{Header: head[:13], MSS: 1}}, "13 bytes"},
			{SendWR{TSO: &TSO{Header: make([]byte, 129), MSS: 1}}, "129"},
			{SendWR{TSO: &TSO{Header: head, MSS: 1}, Inline: []byte{1}}, "Inline"},
			{SendWR{TSO: &TSO{Header: head, MSS: 1}, SGEs: []SGE{{Length: 1 << 30}}}, "tso bytes"},
		} {
			c.wr.Opcode = OpTSO
			_, err := a.qp.PostSend([]SendWR{c.wr})
			wantErr(t, err, syscall.EINVAL, c.want)
		}
	})
}

// TSO with each length that the headers of IPv4 and TCP have, at each place of the send ring. Many of them go round its
// end.
func TestRXE_RawTSORing(t *testing.T) {
	a, b := tsoPair(t, QPOptions{MaxSendWR: 4, MaxSendSGE: 2, Raw: RawOptions{MaxTSOHeader: 134}})
	if a == nil {
		return
	}
	rings := must(a.dev.v.mlx5())(t)
	places := int(must(rings.InitQP(a.qp.handle, 0))(t).SQ.WQECnt)
	if places > 64 || places&(places-1) != 0 {
		t.Fatalf("a ring of %d places", places)
	}
	plain := ethernet(MAC{2, 9, 9, 9, 9, 9}, a.mac, 0x88b5, 46, 1) // for nobody
	data := a.mr.Bytes()[rawSend:][:300]
	fill(data, 5)
	copy(a.mr.Bytes()[rawSend+300:], plain)
	at, round := 0, 0
	for size := 54; size <= 134; size += 4 {
		head := packet(b.mac, a.mac, false, true, 0)
		options := min(size-54, 40)
		head = append(head[:34], append(make([]byte, size-54-options), head[34:]...)...) // of IP
		head = append(head, make([]byte, options)...)                                    // of TCP
		head[14] = 0x45 + byte(size-54-options)/4
		head[len(head)-20-options+12] = byte(20+options) / 4 << 4
		for sges := 1; sges <= 2; sges++ {
			used := (16*((30+size+15)/16+sges) + 63) / 64
			for seen := 0; seen != 1<<places-1; {
				seen |= 1 << at
				if 64*at+30+size > 64*places {
					round++
				}
				list := []SGE{a.mr.SGE(rawSend, 300)}
				if sges == 2 {
					list = []SGE{a.mr.SGE(rawSend, 100), a.mr.SGE(rawSend+100, 200)}
				}
				a.tso(t, b, head, 200, data, list...)
				at += used
				if used%2 == 0 { // an odd step comes to each place
					post(t, a.qp, SendWR{ID: 99, Opcode: OpSend, Flags: Signaled,
						SGEs: []SGE{a.mr.SGE(rawSend+300, 60)}})
					a.sent(t, WCSend)
					at++
				}
				at %= places
			}
		}
	}
	b.none(t)
	if round < 50 {
		t.Errorf("%d headers went round the end of the ring", round)
	}
}

func TestRXE_RawOffloads(t *testing.T) {
	a, b := rawPair(t, RawOptions{}, RawOptions{StripVLAN: true, ScatterFCS: true})
	if a == nil {
		return
	}
	b.rule(t, FlowAttr{Specs: []FlowSpec{b.own()}})
	plain := ethernet(b.mac, a.mac, 0x88b5, 100, 1)
	tagged := append(append(bytes.Clone(plain[:12]), 0x81, 0, 0x60, 42), plain[12:]...)
	for _, f := range [][]byte{plain, tagged} {
		a.send(t, f, 0)
		got, _ := b.frame(t)
		want := binary.LittleEndian.AppendUint32(bytes.Clone(plain), crc32.ChecksumIEEE(f))
		if !bytes.Equal(got, want) {
			t.Errorf("%x\n%x", got, want)
		}
	}
	// A rule may ask for the tag.
	c := newRawSide(t, 1, RawOptions{})
	vlan := c.own()
	vlan.Value.VLANTag, vlan.Mask.VLANTag = 42, 0xfff
	c.rule(t, FlowAttr{Specs: []FlowSpec{vlan}, Flags: FlowDontTrap})
	a.send(t, tagged, 0)
	if got, _ := c.frame(t); !bytes.Equal(got, tagged) {
		t.Errorf("%x", got)
	}
	b.frame(t)
	a.send(t, plain, 0)
	c.none(t)
	b.frame(t)
}

// A CQ with fields returns the tag of the rule beside the number, and the VLAN tag that was taken out of the frame.
func TestRXE_RawFields(t *testing.T) {
	a, _ := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return
	}
	b := newRawSideOn(t, 1, RawOptions{StripVLAN: true}, &CQOptions{Fields: FieldsStandard | FieldCVLAN | FieldFlowTag})
	b.rule(t, FlowAttr{Specs: []FlowSpec{b.own(), FlowTag(0x123456)}})
	want := packet(b.mac, a.mac, false, true, 100)
	tagged := append(append(bytes.Clone(want[:12]), 0x81, 0, 0x60, 42), want[12:]...)
	for i, f := range [][]byte{want, tagged} {
		a.send(t, f, IPCsum)
		got, wc := b.frame(t)
		checksums(t, got)
		if wc.FlowTag != 0x123456 || wc.CVLAN != []uint16{0, 0x602a}[i] || wc.Flags&WCIPCsumOK == 0 ||
			len(got) != len(want) {
			t.Errorf("%d: %+v, %x", i, wc, got[:20])
		}
	}
}

// Frames by the functions behind ibv_wr_*, and TSO with SendOps where it is posted.
func TestRXE_RawSendOps(t *testing.T) {
	a, b := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return
	}
	b.rule(t, FlowAttr{Specs: []FlowSpec{b.own()}})
	if _, err := a.dev.v.QPToQPEx(a.qp.handle); errors.Is(err, ErrNotSupported) {
		return // a library before v24
	}
	o := &QPOptions{Type: RawPacket, SendOps: SendOpSend | SendOpTSO, Raw: RawOptions{MaxTSOHeader: 64}}
	path, _ := a.cq.DataPath()
	if path == DataPathOps { // TestRXE_RawTSO looks at the refusal
		o.SendOps, o.Raw = SendOpSend, RawOptions{}
	}
	ok(t, a.qp.Close())
	a.newQP(t, o)
	rawReady(t, a.qp)
	want := packet(b.mac, a.mac, false, true, 200)
	a.send(t, want, IPCsum)
	got, _ := b.frame(t)
	checksums(t, got)
	if !bytes.Equal(got[54:], want[54:]) {
		t.Errorf("%x", got)
	}
	if path == DataPathOps {
		return
	}
	post(t, a.qp, SendWR{ID: 99, Opcode: OpTSO, Flags: Signaled | IPCsum, TSO: &TSO{Header: want[:54], MSS: 150},
		SGEs: []SGE{a.mr.SGE(rawSend+54, 200)}})
	a.sent(t, WCTSO)
	for _, part := range [][]byte{want[54:204], want[204:]} {
		got, _ := b.frame(t)
		checksums(t, got)
		if !bytes.Equal(got[54:54+len(part)], part) {
			t.Errorf("%x", got)
		}
	}
	b.none(t)
}
