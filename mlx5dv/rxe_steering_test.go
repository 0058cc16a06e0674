package mlx5dv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// rawSide is a raw packet QP with receives posted.
type rawSide struct {
	dev  *ibv.Device
	cq   *ibv.CQ
	mr   *ibv.MR
	qp   *ibv.QP
	mac  ibv.MAC
	next uint64
}

const (
	rawRecvs = 16
	rawSlot  = 2048
	rawSend  = rawRecvs * rawSlot
)

// rawPair makes a raw packet QP on each device. Where there is none it looks at the refusals and returns nil.
func rawPair(t *testing.T) (*rawSide, *rawSide) {
	t.Helper()
	a := open(t, 0)
	if a == nil {
		dev := closing(t, must(ibv.Open(testutil.NeedRXE(t).Dev[0]))(t))
		for name, f := range map[string]func() error{
			"CreateFlowMatcher": func() error { _, err := CreateFlowMatcher(dev, nil); return err },
			"CreateHeaderAction": func() error {
				_, err := CreateHeaderAction(dev, TableNICRx, SetHeader(FieldTTL, 1))
				return err
			},
			"CreateReformatAction": func() error { _, err := CreateReformatAction(dev, 0, 0, nil); return err },
			"CreateSteeringAnchor": func() error { _, err := CreateSteeringAnchor(dev, 0, 0); return err },
		} {
			if err := f(); !errors.Is(err, ibv.ErrNotSupported) && !errors.Is(err, ibv.ErrLibrary) {
				t.Errorf("%s on SoftRoCE: %v", name, err)
			}
		}
		return nil, nil
	}
	rxe := testutil.NeedRXE(t)
	if rxe.NeedFrames(t); os.Geteuid() != 0 {
		m := must(CreateFlowMatcher(a, nil))(t)
		_, err := m.CreateFlow(nil, FlowDrop{})
		wantError(t, err, syscall.EPERM, "CAP_NET_RAW")
		ok(t, m.Close())
		return nil, nil
	}
	return newRawSide(t, a), newRawSide(t, open(t, 1))
}

func newRawSide(t *testing.T, dev *ibv.Device) *rawSide {
	t.Helper()
	s := &rawSide{dev: dev}
	pd := closing(t, must(dev.AllocPD())(t))
	s.cq = closing(t, must(dev.CreateCQ(64, nil))(t))
	s.mr = closing(t, must(pd.AllocMR(rawSend+rawSlot, ibv.LocalWrite, nil))(t))
	s.qp = closing(t, must(pd.CreateQP(s.cq, s.cq, &ibv.QPOptions{Type: ibv.RawPacket, MaxSendWR: 4,
		MaxRecvWR: rawRecvs}))(t))
	ok(t, s.qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1}, ibv.MaskState|ibv.MaskPort))
	ok(t, s.qp.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState))
	ok(t, s.qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
	g := must(dev.QueryGID(1, 0))(t)
	s.mac = ibv.MAC{g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}
	for id := range uint64(rawRecvs) {
		s.post(t, id)
	}
	return s
}

func (s *rawSide) post(t testing.TB, id uint64) {
	t.Helper()
	_, err := s.qp.PostRecv([]ibv.RecvWR{{ID: id, SGEs: []ibv.SGE{s.mr.SGE(int(id)*rawSlot, rawSlot)}}})
	ok(t, err)
}

// send posts a frame and waits until it is sent: by then it was delivered.
func (s *rawSide) send(t testing.TB, frame []byte) {
	t.Helper()
	copy(s.mr.Bytes()[rawSend:], frame)
	_, err := s.qp.PostSend([]ibv.SendWR{{ID: 99, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.mr.SGE(rawSend, len(frame))}}})
	ok(t, err)
	if wc := s.wait(t); wc.ID != 99 || wc.Opcode != ibv.WCSend {
		t.Fatalf("sending ended with %+v", wc)
	}
}

func (s *rawSide) wait(t testing.TB) ibv.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	var wc [1]ibv.WC
	if n, err := s.cq.Wait(ctx, wc[:]); n != 1 || err != nil || wc[0].Status != ibv.WCSuccess {
		t.Fatalf("%d completions, %+v, %v", n, wc[0], err)
	}
	return wc[0]
}

// frame waits for a frame and returns a copy of it, and its tag.
func (s *rawSide) frame(t testing.TB) ([]byte, uint32) {
	t.Helper()
	wc := s.wait(t)
	if wc.ID != s.next {
		t.Fatalf("receive %d, want %d", wc.ID, s.next)
	}
	b := bytes.Clone(s.mr.Bytes()[int(wc.ID)*rawSlot:][:wc.ByteLen])
	s.next = (s.next + 1) % rawRecvs
	s.post(t, wc.ID)
	return b, wc.QPN
}

// none fails if a frame has come.
func (s *rawSide) none(t testing.TB) {
	t.Helper()
	var wc [1]ibv.WC
	if n, err := s.cq.Poll(wc[:]); n != 0 || err != nil {
		t.Fatalf("a frame that was not for this QP: %+v, %v", wc[0], err)
	}
}

func wantError(t testing.TB, err, target error, words ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v, want %v", err, target)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q says nothing of %q", err, w)
		}
	}
}

// join is one frame of several headers.
func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func be16(v ...uint16) (b []byte) {
	for _, x := range v {
		b = binary.BigEndian.AppendUint16(b, x)
	}
	return b
}

// onesSum is the checksum of the Internet.
func onesSum(parts ...[]byte) uint16 {
	var s uint32
	for _, b := range parts {
		for i := 0; i < len(b); i += 2 {
			s += uint32(b[i]) << 8
			if i+1 < len(b) {
				s += uint32(b[i+1])
			}
		}
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return s1(s)
}

func s1(s uint32) uint16 { return ^uint16(s) }

// ipv4 is a packet with right checksums.
func ipv4(proto byte, src, dst [4]byte, l4 []byte) []byte {
	ip := join([]byte{0x45, 0xb9}, be16(uint16(20+len(l4)), 7, 0x4000), []byte{64, proto, 0, 0}, src[:], dst[:])
	binary.BigEndian.PutUint16(ip[10:], onesSum(ip))
	at := map[byte]int{6: 16, 17: 6}[proto]
	if at > 0 {
		sum := onesSum(src[:], dst[:], []byte{0, proto}, be16(uint16(len(l4))), l4)
		binary.BigEndian.PutUint16(l4[at:], sum)
	}
	return join(ip, l4)
}

func ipv6(next byte, l4 []byte) []byte {
	return join([]byte{0x6a, 0x91, 0x23, 0x45}, be16(uint16(len(l4))), []byte{next, 33}, addr6(1), addr6(2), l4)
}

func addr6(n byte) []byte { return []byte{0xfd, 1: 0x17, 15: n} }

func udp(dst uint16, data []byte) []byte {
	return join(be16(4000, dst, uint16(8+len(data)), 0), data)
}

func tcp(data []byte) []byte {
	return join(be16(4001, 5001), []byte{0xa1, 2, 3, 4, 0xb1, 6, 7, 8, 0x51, 0x18, 1, 0, 0, 0, 0, 0}, data)
}

// Each field that the emulated adapter compares leads the frames that have it, and no others.
func TestRXEFlowMatcher(t *testing.T) {
	a, b := rawPair(t)
	if a == nil {
		return
	}
	all6 := ibv.MAC{255, 255, 255, 255, 255, 255}
	src, dst := [4]byte{10, 1, 0, 1}, [4]byte{10, 1, 0, 2}
	all4, pad := [4]byte{255, 255, 255, 255}, make([]byte, 40)
	eth := func(kind uint16, parts ...[]byte) []byte {
		return join(b.mac[:], a.mac[:], be16(kind), join(parts...), pad)
	}
	v4 := func(proto byte, l4 []byte) []byte { return eth(0x0800, ipv4(proto, src, dst, l4)) }
	inner := join([]byte{2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8}, be16(0x0800), ipv4(6, dst, src, tcp(pad)))
	plain, tcp4 := v4(17, udp(5000, pad)), v4(6, tcp(pad))
	udp6 := eth(0x86dd, ipv6(17, udp(5000, pad)))
	vlan := eth(0x8100, be16(0x6007, 0x0800), ipv4(17, src, dst, udp(5000, pad)))
	double := eth(0x88a8, be16(0x4005, 0x8100, 0x2006, 0x0800), ipv4(17, src, dst, udp(5000, pad)))
	vxlan := v4(17, udp(4789, join([]byte{8, 0, 0, 0, 0, 1, 5, 0}, inner)))
	gre := v4(47, join([]byte{0x30, 0, 0x65, 0x58, 0, 0, 1, 9, 0, 0, 0, 1}, inner))
	esp := v4(50, []byte{1, 2, 3, 4, 0, 0, 0, 1, 9, 9})
	icmp := v4(1, []byte{8, 0, 0, 0, 1, 2, 3, 4})
	icmp6 := eth(0x86dd, ipv6(58, []byte{135, 1, 0, 0, 5, 6, 7, 8}))
	mpls := eth(0x8847, []byte{0, 5, 0xf1, 64}, inner[14:])
	mplsUDP := v4(17, udp(6635, join([]byte{0, 6, 0xf1, 63}, inner[14:])))
	fragment := bytes.Clone(plain)
	fragment[20] = 0x20 // more to come

	outer := func(v, m MatchHeaders) [2]Match { return [2]Match{{Outer: v}, {Outer: m}} }
	misc := func(v, m MatchMisc) [2]Match { return [2]Match{{Misc: v}, {Misc: m}} }
	misc3 := func(v, m MatchMisc3) [2]Match { return [2]Match{{Misc3: v}, {Misc3: m}} }
	for _, c := range []struct {
		name string
		is   [2]Match // value and mask
		yes  []byte
		no   []byte
	}{
		{"source MAC", outer(MatchHeaders{SrcMAC: a.mac}, MatchHeaders{SrcMAC: all6}), plain, inner},
		{"ethertype", outer(MatchHeaders{EtherType: 0x86dd}, MatchHeaders{EtherType: 0xffff}), udp6, vlan},
		{"vlan", outer(MatchHeaders{VLANID: 7, VLANPrio: 3, CVLANTag: 1}, MatchHeaders{VLANID: 0xfff, VLANPrio: 7,
			CVLANTag: 1}), vlan, double},
		{"no vlan", outer(MatchHeaders{}, MatchHeaders{CVLANTag: 1, SVLANTag: 1}), plain, double},
		{"second vlan", misc(MatchMisc{OuterSecondVID: 6, OuterSecondPrio: 1, OuterSecondCVLAN: 1},
			MatchMisc{OuterSecondVID: 0xfff, OuterSecondPrio: 7, OuterSecondCVLAN: 1}), double, vlan},
		{"version", outer(MatchHeaders{IPVersion: 6}, MatchHeaders{IPVersion: 15}), udp6, plain},
		{"protocol", outer(MatchHeaders{IPProtocol: 6}, MatchHeaders{IPProtocol: 255}), tcp4, plain},
		{"DSCP and ECN", outer(MatchHeaders{DSCP: 0x2e, ECN: 1}, MatchHeaders{DSCP: 63, ECN: 3}), plain, udp6},
		{"TTL", outer(MatchHeaders{TTL: 33}, MatchHeaders{TTL: 255}), udp6, plain},
		{"fragment", outer(MatchHeaders{Fragment: 1}, MatchHeaders{Fragment: 1}), fragment, plain},
		{"IPv4", outer(MatchHeaders{SrcIPv4: src, DstIPv4: dst, IPVersion: 4},
			MatchHeaders{SrcIPv4: all4, DstIPv4: all4, IPVersion: 15}), plain,
			eth(0x0800, ipv4(17, src, src, udp(5000, pad)))},
		{"IPv6", outer(MatchHeaders{DstIPv6: [16]byte{0xfd, 15: 2}}, MatchHeaders{DstIPv6: [16]byte{255, 15: 255}}),
			udp6, plain},
		{"UDP ports", outer(MatchHeaders{UDPSrcPort: 4000, UDPDstPort: 5000}, MatchHeaders{UDPSrcPort: 0xffff,
			UDPDstPort: 0xffff}), plain, vxlan},
		{"TCP", outer(MatchHeaders{TCPSrcPort: 4001, TCPDstPort: 5001, TCPFlags: 0x118},
			MatchHeaders{TCPSrcPort: 0xffff, TCPDstPort: 0xffff, TCPFlags: 0x1ff}), tcp4, plain},
		{"checksums", outer(MatchHeaders{IPv4SumOK: 1, L4SumOK: 1}, MatchHeaders{IPv4SumOK: 1, L4SumOK: 1}), tcp4,
			udp6},
		{"VXLAN", misc(MatchMisc{VXLANVNI: 0x105}, MatchMisc{VXLANVNI: 1<<24 - 1}), vxlan, plain},
		{"inner", [2]Match{{Inner: MatchHeaders{DstMAC: ibv.MAC{2, 0, 0, 0, 0, 7}, TCPDstPort: 5001, SrcIPv4: dst}},
			{Inner: MatchHeaders{DstMAC: all6, TCPDstPort: 0xffff, SrcIPv4: all4}}}, vxlan, tcp4},
		{"GRE", misc(MatchMisc{GREKey: 0x109, GREProtocol: 0x6558, GREKeyPresent: 1, GRESequence: 1},
			MatchMisc{GREKey: 1<<32 - 1, GREProtocol: 0xffff, GREKeyPresent: 1, GRESequence: 1, GREChecksum: 1}), gre,
			plain},
		{"ESP", misc(MatchMisc{OuterESPSPI: 0x1020304}, MatchMisc{OuterESPSPI: 1<<32 - 1}), esp, plain},
		{"flow label", misc(MatchMisc{OuterFlowLabel: 0x12345}, MatchMisc{OuterFlowLabel: 0xfffff}), udp6, plain},
		{"MPLS", [2]Match{{Misc2: MatchMisc2{OuterMPLS: 0x5f140}}, {Misc2: MatchMisc2{OuterMPLS: 1<<32 - 1}}}, mpls,
			mplsUDP},
		{"MPLS over UDP", [2]Match{{Misc2: MatchMisc2{MPLSOverUDP: 0x6f13f}}, {Misc2: MatchMisc2{
			MPLSOverUDP: 1<<32 - 1}}}, mplsUDP, mpls},
		{"TCP numbers", misc3(MatchMisc3{OuterTCPSeq: 0xa1020304, OuterTCPAck: 0xb1060708},
			MatchMisc3{OuterTCPSeq: 1<<32 - 1, OuterTCPAck: 1<<32 - 1}), tcp4, gre},
		{"inner TCP numbers", misc3(MatchMisc3{InnerTCPSeq: 0xa1020304}, MatchMisc3{InnerTCPSeq: 1<<32 - 1}), gre,
			tcp4},
		{"ICMP", misc3(MatchMisc3{ICMPType: 8, ICMPHeader: 0x1020304}, MatchMisc3{ICMPType: 255, ICMPCode: 255,
			ICMPHeader: 1<<32 - 1}), icmp, icmp6},
		{"ICMPv6", misc3(MatchMisc3{ICMPv6Type: 135, ICMPv6Code: 1, ICMPv6Header: 0x5060708},
			MatchMisc3{ICMPv6Type: 255, ICMPv6Code: 255, ICMPv6Header: 1<<32 - 1}), icmp6, icmp},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := closing(t, must(CreateFlowMatcher(b.dev, &FlowMatcherOptions{Mask: c.is[1]}))(t))
			f := closing(t, must(m.CreateFlow(&c.is[0], FlowTag(0xabcdef), FlowToQP{b.qp}))(t))
			a.send(t, c.no)
			b.none(t)
			a.send(t, c.yes)
			if got, tag := b.frame(t); !bytes.HasPrefix(got, c.yes) || tag != 0xabcdef {
				t.Errorf("%x with tag %#x, want %x", got, tag, c.yes)
			}
			var be *ibv.BusyError
			if err := m.Close(); !errors.As(err, &be) {
				t.Errorf("closing a matcher with a rule: %v", err)
			}
			ok(t, f.Close())
			a.send(t, c.yes)
			b.none(t)
		})
	}
}

// Which of several rules has a frame, and what they do with it.
func TestRXEFlowActions(t *testing.T) {
	a, b := rawPair(t)
	if a == nil {
		return
	}
	pad := make([]byte, 40)
	src, dst := [4]byte{10, 1, 0, 1}, [4]byte{10, 1, 0, 2}
	head := join(b.mac[:], a.mac[:], be16(0x0800))
	frame := join(head, ipv4(17, src, dst, udp(5000, pad)))
	tcpFrame := join(head, ipv4(6, src, dst, tcp(pad)))
	mask := Match{Outer: MatchHeaders{IPVersion: 15, IPProtocol: 255}}
	value := &Match{Outer: MatchHeaders{IPVersion: 4, IPProtocol: 17}}
	matcher := func(t *testing.T, s *rawSide, o FlowMatcherOptions) *FlowMatcher {
		t.Helper()
		return closing(t, must(CreateFlowMatcher(s.dev, &o))(t))
	}
	rule := func(t *testing.T, m *FlowMatcher, v *Match, actions ...FlowAction) *Flow {
		t.Helper()
		return closing(t, must(m.CreateFlow(v, actions...))(t))
	}
	comes := func(t *testing.T, send, want []byte, tag uint32) {
		t.Helper()
		a.send(t, send)
		if got, is := b.frame(t); !bytes.Equal(got, want) || is != tag {
			t.Errorf("got %x with tag %d\nwant %x with tag %d", got, is, want, tag)
		}
	}
	lost := func(t *testing.T, send []byte) { t.Helper(); a.send(t, send); b.none(t) }

	t.Run("priority", func(t *testing.T) {
		rule(t, matcher(t, b, FlowMatcherOptions{Priority: 5}), nil, FlowToQP{b.qp}, FlowTag(5))
		comes(t, frame, frame, 5)
		t.Run("above", func(t *testing.T) {
			m := matcher(t, b, FlowMatcherOptions{Priority: 2, Mask: mask})
			rule(t, m, value, FlowToQP{b.qp}, FlowTag(2))
			comes(t, frame, frame, 2)
			comes(t, tcpFrame, tcpFrame, 5)
			_, err := m.CreateFlow(value, FlowToQP{b.qp}, FlowTag(3))
			wantError(t, err, syscall.EEXIST, "same matches")
		})
		t.Run("drop", func(t *testing.T) {
			rule(t, matcher(t, b, FlowMatcherOptions{Mask: mask}), value, FlowDrop{})
			lost(t, frame)
			comes(t, tcpFrame, tcpFrame, 5)
		})
		t.Run("miss", func(t *testing.T) { // past the other rules, to the defaults
			rule(t, matcher(t, b, FlowMatcherOptions{Mask: mask}), value, FlowMiss{})
			lost(t, frame)
			all := closing(t, must(b.qp.CreateFlow(&ibv.FlowAttr{Port: 1, Type: ibv.FlowAllDefault}))(t))
			comes(t, frame, frame, 0)
			ok(t, all.Close())
		})
	})
	t.Run("with rules of ibv", func(t *testing.T) {
		f := closing(t, must(b.qp.CreateFlow(&ibv.FlowAttr{Port: 1, Priority: 3}))(t))
		comes(t, frame, frame, 0)
		g := rule(t, matcher(t, b, FlowMatcherOptions{Priority: 2, Mask: mask}), value, FlowToQP{b.qp}, FlowTag(9))
		comes(t, frame, frame, 9)
		ok(t, g.Close())
		comes(t, frame, frame, 0)
		ok(t, f.Close())
	})
	t.Run("counters", func(t *testing.T) {
		n := newCounter(t, b.dev, 1) // 128 of them
		m := matcher(t, b, FlowMatcherOptions{Mask: mask})
		f := rule(t, m, value, FlowToQP{b.qp}, FlowCount{Counter: n.DevXObject})
		closing(t, must(b.qp.CreateFlow(&ibv.FlowAttr{Port: 1, Priority: 15}))(t))
		comes(t, frame, frame, 0)
		comes(t, frame, frame, 0)
		comes(t, tcpFrame, tcpFrame, 0)
		n.want(t, 0, 2, uint64(2*len(frame)))
		var be *ibv.BusyError
		if err := n.Close(); !errors.As(err, &be) {
			t.Errorf("closing a counter in use: %v", err)
		}
		ok(t, f.Close())
		f, err := m.CreateFlow(value, FlowDrop{}, FlowCount{n.DevXObject, 5})
		if errors.Is(err, ibv.ErrNotSupported) { // an older library
			wantError(t, err, ibv.ErrNotSupported, "v60")
			return
		}
		ok(t, err)
		lost(t, frame)
		n.want(t, 5, 1, uint64(len(frame)))
		ok(t, f.Close())
		_, err = m.CreateFlow(value, FlowDrop{}, FlowCount{n.DevXObject, 128})
		wantError(t, err, syscall.EINVAL)
	})
	t.Run("egress", func(t *testing.T) {
		rule(t, matcher(t, b, FlowMatcherOptions{}), nil, FlowToQP{b.qp})
		m := matcher(t, a, FlowMatcherOptions{Mask: mask, Table: TableNICTx})
		f := rule(t, m, value, FlowDrop{})
		lost(t, frame)
		comes(t, tcpFrame, tcpFrame, 0)
		ok(t, f.Close())
		comes(t, frame, frame, 0)
		ttl := closing(t, must(CreateHeaderAction(a.dev, TableNICTx, AddHeader(FieldTTL, 0xffffffff)))(t))
		f = rule(t, m, value, FlowApply{ttl})
		less := bytes.Clone(frame)
		less[22] = 63
		binary.BigEndian.PutUint16(less[24:], 0)
		binary.BigEndian.PutUint16(less[24:], onesSum(less[14:34]))
		comes(t, frame, less, 0)
		var be *ibv.BusyError
		if err := ttl.Close(); !errors.As(err, &be) {
			t.Errorf("closing an action in use: %v", err)
		}
		ok(t, f.Close())
		_, err := m.CreateFlow(value, FlowMiss{})
		wantError(t, err, ibv.ErrNotSupported, "table NICTx")
	})
	t.Run("headers", func(t *testing.T) {
		m := matcher(t, b, FlowMatcherOptions{Mask: mask})
		act := closing(t, must(CreateHeaderAction(b.dev, TableNICRx,
			SetHeader(FieldDstMACHigh, 0x02030405), SetHeader(FieldDstMACLow, 0x0607),
			SetHeader(FieldDstIPv4, 0x0a090807),
			SetHeader(FieldUDPDstPort, 53), CopyHeader(FieldUDPSrcPort, FieldUDPDstPort), AddHeader(FieldTTL, 3),
			SetHeaderBits(FieldDSCP, 1, 2, 1), SetHeaderBits(FieldDSCP, 0, 5, 1)))(t))
		rule(t, m, value, FlowToQP{b.qp}, FlowApply{act})
		want := join([]byte{2, 3, 4, 5, 6, 7}, frame[6:])
		want[15], want[22] = 0x0e<<2|1, 67 // DSCP 0x2e, less bit 5; bit 2 is set already
		ip := want[14:34]
		copy(ip[16:], []byte{10, 9, 8, 7})
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], onesSum(ip))
		want = join(want[:34], ipv4(17, src, [4]byte{10, 9, 8, 7}, join(be16(53, 53), udp(53, pad)[4:]))[20:])
		comes(t, frame, want, 0)
	})
	t.Run("tunnels", func(t *testing.T) {
		rule(t, matcher(t, b, FlowMatcherOptions{Priority: 9}), nil, FlowToQP{b.qp})
		outer := join(head, ipv4(17, dst, src, udp(4789, []byte{8, 0, 0, 0, 0, 1, 5, 0})))
		encap := closing(t, must(CreateReformatAction(a.dev, TableNICTx, ReformatL2ToTunnel, outer))(t))
		decap := closing(t, must(CreateReformatAction(b.dev, TableNICRx, ReformatL2FromTunnel, nil))(t))
		in := rule(t, matcher(t, a, FlowMatcherOptions{Mask: mask, Table: TableNICTx}), value, FlowApply{encap})
		full := join(outer, frame)
		binary.BigEndian.PutUint16(full[16:], uint16(len(full)-14))
		binary.BigEndian.PutUint16(full[24:], 0)
		binary.BigEndian.PutUint16(full[24:], onesSum(full[14:34]))
		binary.BigEndian.PutUint16(full[38:], uint16(len(full)-34))
		comes(t, frame, full, 0)
		out := rule(t, matcher(t, b, FlowMatcherOptions{Mask: Match{Misc: MatchMisc{VXLANVNI: 0xffffff}}}),
			&Match{Misc: MatchMisc{VXLANVNI: 0x105}}, FlowToQP{b.qp}, FlowApply{decap}, FlowTag(1))
		comes(t, frame, frame, 1)
		comes(t, tcpFrame, tcpFrame, 0)
		ok(t, in.Close())
		ok(t, out.Close())

		gre := join(head, ipv4(47, dst, src, []byte{0, 0, 8, 0}))
		encap = closing(t, must(CreateReformatAction(a.dev, TableNICTx, ReformatL3ToTunnel, gre))(t))
		decap = closing(t, must(CreateReformatAction(b.dev, TableNICRx, ReformatL3FromTunnel, head))(t))
		rule(t, matcher(t, a, FlowMatcherOptions{Mask: mask, Table: TableNICTx}), value, FlowApply{encap})
		rule(t, matcher(t, b, FlowMatcherOptions{Mask: Match{Misc: MatchMisc{GREProtocol: 0xffff}}}),
			&Match{Misc: MatchMisc{GREProtocol: 0x800}}, FlowToQP{b.qp}, FlowApply{decap}, FlowTag(2))
		comes(t, frame, frame, 2)
	})
	t.Run("refused", func(t *testing.T) {
		_, err := matcher(t, b, FlowMatcherOptions{Priority: 16}).CreateFlow(nil, FlowDrop{})
		wantError(t, err, syscall.ENOMEM)
		_, err = matcher(t, b, FlowMatcherOptions{Table: TableRDMARx}).CreateFlow(nil, FlowToQP{b.qp})
		wantError(t, err, ibv.ErrNotSupported, "table RDMARx")
		_, err = CreateFlowMatcher(b.dev, &FlowMatcherOptions{Table: TableFDB})
		wantError(t, err, syscall.EINVAL)
		m := matcher(t, b, FlowMatcherOptions{Mask: Match{Misc3: MatchMisc3{GTPUTEID: 1}}})
		_, err = m.CreateFlow(nil, FlowToQP{b.qp}) // no field of this device
		wantError(t, err, syscall.EINVAL)
		_, err = matcher(t, b, FlowMatcherOptions{}).CreateFlow(nil, FlowTag(1))
		wantError(t, err, syscall.EINVAL)
		_, err = matcher(t, b, FlowMatcherOptions{Table: TableNICTx}).CreateFlow(nil, FlowToQP{b.qp})
		wantError(t, err, syscall.EINVAL)
		tx := closing(t, must(CreateHeaderAction(b.dev, TableNICTx, SetHeader(FieldTTL, 1)))(t))
		_, err = matcher(t, b, FlowMatcherOptions{}).CreateFlow(nil, FlowToQP{b.qp}, FlowApply{tx})
		wantError(t, err, syscall.EINVAL)
		_, err = CreateHeaderAction(b.dev, TableFDB, SetHeader(FieldTTL, 1))
		wantError(t, err, ibv.ErrNotSupported, "table FDB")
		_, err = CreateReformatAction(b.dev, TableNICRx, ReformatL2ToTunnel, head)
		wantError(t, err, ibv.ErrNotSupported, "L2ToTunnel in table NICRx")
		_, err = CreateESPAction(b.dev, &ibv.ESPAction{AESGCM: &ibv.ESPKey{Key: make([]byte, 16), ICVLen: 16}})
		wantError(t, err, ibv.ErrNotSupported, "IPsec")
	})
	t.Run("anchor", func(t *testing.T) {
		s, err := CreateSteeringAnchor(b.dev, TableNICRx, 3)
		if errors.Is(err, ibv.ErrNotSupported) {
			wantError(t, err, ibv.ErrNotSupported, "v42") // the library is older
			return
		}
		ok(t, err)
		if s.ID() == 0 {
			t.Error("the anchor has no number")
		}
		ok(t, s.Close())
		_, err = CreateSteeringAnchor(b.dev, TableNICRx, 99)
		wantError(t, err, syscall.ENOMEM, "priority 99")
	})
}

// counter is a flow counter of DevX.
type counter struct {
	*DevXObject
	id uint32
}

func newCounter(t *testing.T, dev *ibv.Device, bulk byte) counter {
	t.Helper()
	in, out := make([]byte, 16), make([]byte, 16)
	binary.BigEndian.PutUint16(in, 0x939)
	in[15] = bulk
	o := closing(t, must(CreateDevXObject(dev, in, out))(t))
	return counter{o, binary.BigEndian.Uint32(out[8:])}
}

func (c counter) want(t testing.TB, at int, packets, octets uint64) {
	t.Helper()
	in, out := make([]byte, 32), make([]byte, 16+16*(at+1))
	binary.BigEndian.PutUint16(in, 0x93b)
	binary.BigEndian.PutUint16(in[26:], uint16(at+1))
	binary.BigEndian.PutUint32(in[28:], c.id)
	ok(t, c.Query(in, out))
	p, n := binary.BigEndian.Uint64(out[16+16*at:]), binary.BigEndian.Uint64(out[24+16*at:])
	if p != packets || n != octets {
		t.Errorf("counted %d frames of %d bytes, want %d of %d", p, n, packets, octets)
	}
}
