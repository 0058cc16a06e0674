package ibv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// wqSide is a device with WQs, each with a CQ of its own, and an RSS QP on them.
type wqSide struct {
	*side
	mac MAC
	cqs []*CQ
	wqs []*WQ
	rss *QP
}

const wqRecvs = 32

// newWQs makes n WQs on the second device, and a raw packet QP that sends to them on the first. On SoftRoCE, which has
// no WQs, and for a program without CAP_NET_RAW it looks at the refusal and returns nil.
func newWQs(t *testing.T, n int, opt WQOptions) (*rawSide, *wqSide) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	b := &wqSide{side: newSide(t, 1, nil)}
	if !rxe.Emulated && !rxe.Hardware {
		_, err := b.pd.CreateWQ(b.cq, nil)
		wantErr(t, err, ErrNotSupported, "a WQ", "RawPacket")
		_, err = b.dev.CreateRWQIndTable(nil)
		wantErr(t, err, syscall.EINVAL, "power of two")
		return nil, nil
	}
	rxe.NeedFrames(t)
	b.mac = macOf(t, b.dev)
	opt.MaxWR = wqRecvs
	for i := range n {
		fields := FieldsStandard | FieldCVLAN | FieldFlowTag
		cq := closing(t, must(b.dev.CreateCQ(2*wqRecvs, &CQOptions{Fields: fields}))(t))
		wq := closing(t, must(b.pd.CreateWQ(cq, &opt))(t))
		b.cqs, b.wqs = append(b.cqs, cq), append(b.wqs, wq)
		b.ready(t, i)
	}
	table := closing(t, must(b.dev.CreateRWQIndTable(b.wqs))(t))
	if os.Geteuid() != 0 {
		_, err := b.pd.CreateQP(nil, nil, &QPOptions{Type: RawPacket, RSS: &RSSOptions{Table: table,
			Fields: HashSrcIPv4}})
		wantErr(t, err, syscall.EPERM, "CAP_NET_RAW")
		return nil, nil
	}
	return newRawSide(t, 0, RawOptions{}), b
}

// ready moves WQ i to WQReady and fills it. Its receives are in slots of the MR.
func (b *wqSide) ready(t *testing.T, i int) {
	t.Helper()
	ok(t, b.wqs[i].Modify(&WQAttr{State: WQReady}, MaskWQState))
	for k := range wqRecvs {
		b.post(t, i, k)
	}
}

func (b *wqSide) post(t testing.TB, i, k int) {
	t.Helper()
	at := (i%8*wqRecvs + k) * rawSlot
	wr := RecvWR{ID: uint64(i*wqRecvs + k), SGEs: []SGE{b.mr.SGE(at, rawSlot)}}
	if n, err := b.wqs[i].PostRecv([]RecvWR{wr}); n != 1 || err != nil {
		t.Fatalf("post to WQ %d: %d, %v", i, n, err)
	}
}

// spreads makes an RSS QP on all WQs that gets the frames to the port's address.
func (b *wqSide) spreads(t *testing.T, fields HashFields) {
	t.Helper()
	table := closing(t, must(b.dev.CreateRWQIndTable(b.wqs))(t))
	b.rss = closing(t, must(b.pd.CreateQP(nil, nil, &QPOptions{Type: RawPacket,
		RSS: &RSSOptions{Table: table, Fields: fields}}))(t))
	own := FlowEth{Value: FlowEthFields{DstMAC: b.mac}, Mask: FlowEthFields{DstMAC: MAC{255, 255, 255, 255, 255, 255}}}
	f := must(b.rss.CreateFlow(&FlowAttr{Port: 1, Specs: []FlowSpec{own, FlowTag(0x123)}}))(t)
	t.Cleanup(func() { ok(t, f.Close()) })
}

// wait waits for a completion of WQ i, and posts its receive again.
func (b *wqSide) wait(t testing.TB, i int) ([]byte, WC) {
	t.Helper()
	var wc [1]WC
	if _, err := b.cqs[i].Wait(timeout(t), wc[:]); err != nil {
		t.Fatal(err)
	}
	if err := wc[0].Err(); err != nil {
		t.Fatal(err)
	}
	k := int(wc[0].ID) - i*wqRecvs
	if k < 0 || k >= wqRecvs {
		t.Fatalf("WQ %d completes receive %d", i, wc[0].ID)
	}
	frame := bytes.Clone(b.mr.Bytes()[(i%8*wqRecvs+k)*rawSlot:][:wc[0].ByteLen])
	b.post(t, i, k)
	return frame, wc[0]
}

// got returns the WQ that has a completion. The frame was delivered before its sender's completion.
func (b *wqSide) got(t testing.TB) int {
	t.Helper()
	at := -1
	for i, cq := range b.cqs {
		var wc [2]WCEx
		n, err := cq.PollEx(wc[:])
		switch {
		case err != nil:
			t.Fatal(err)
		case n == 0:
			continue
		case n > 1 || at >= 0 || wc[0].Status != WCSuccess || wc[0].Opcode != WCRecv || wc[0].FlowTag != 0x123:
			t.Fatalf("WQ %d has %+v, after WQ %d", i, wc[:n], at)
		}
		at = i
		b.post(t, i, int(wc[0].ID)-i*wqRecvs)
	}
	return at
}

// rssVectors are those of "Verifying the RSS Hash Calculation" in Microsoft's driver documentation.
var rssVectors = []struct {
	dst, src        string
	ofIP, withPorts uint32
}{
	{"161.142.100.80:1766", "66.9.149.187:2794", 0x323e8fc2, 0x51ccc178},
	{"65.69.140.83:4739", "199.92.111.2:14230", 0xd718262a, 0xc626b0ea},
	{"12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0a5de, 0x5c2b394a},
	{"209.142.163.6:2217", "38.27.205.30:48228", 0x82989176, 0xafc7327f},
	{"202.188.127.2:1303", "153.39.163.191:44251", 0x5d1809c5, 0x10e828a2},
	{"[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc18cd5, 0x40207d3d},
	{"[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c461c, 0xdde51bbf},
	{"[fe80::200:f8ff:fe21:67cf]:38024", "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251", 0x4b61e985, 0x02d1feef},
}

// between is a frame from one address and port to another.
func (b *wqSide) between(from MAC, src, dst netip.AddrPort, tcp bool) []byte {
	v6 := dst.Addr().Is6()
	f := packet(b.mac, from, v6, tcp, 20)
	at := 14 + 12
	if v6 {
		at = 14 + 8
	}
	at += copy(f[at:], src.Addr().AsSlice())
	at += copy(f[at:], dst.Addr().AsSlice())
	binary.BigEndian.PutUint16(f[at:], src.Port())
	binary.BigEndian.PutUint16(f[at+2:], dst.Port())
	return f
}

// modelHash is Toeplitz as its definition says: the key, as one long number, shifted by the place of each bit.
func modelHash(in []byte) (h uint32) {
	bit := func(b []byte, i int) uint32 { return uint32(b[i/8]>>(7-i%8)) & 1 }
	for i := range len(in) * 8 {
		for k := range 32 {
			h ^= bit(in, i) * bit(defaultRSSKey, i+k) << (31 - k)
		}
	}
	return h
}

// Frames go to the WQ that published hashes, and a model, name.
func TestRXE_RSS(t *testing.T) {
	const n = 8
	a, b := newWQs(t, n, WQOptions{})
	if a == nil {
		return
	}
	const v4, v6 = HashSrcIPv4 | HashDstIPv4, HashSrcIPv6 | HashDstIPv6
	const tcp, udp = HashSrcPortTCP | HashDstPortTCP, HashSrcPortUDP | HashDstPortUDP
	for _, c := range []struct {
		fields HashFields
		v6     bool
		tcp    bool
	}{
		{v4, false, true}, {v4 | tcp, false, true}, {v4 | udp, false, false}, {v6, true, false}, {v6 | tcp, true, true},
		{v6 | udp, true, false}, {HashSrcIPv4, false, false}, {HashDstIPv6, true, true}, {HashSrcPortUDP, false, false},
		{tcp, true, true}, {HashDstIPv4 | HashDstPortTCP, false, true},
	} {
		t.Run(c.fields.String(), func(t *testing.T) {
			b.spreads(t, c.fields)
			var where [n]int
			for i, v := range rssVectors {
				src, dst := netip.MustParseAddrPort(v.src), netip.MustParseAddrPort(v.dst)
				if dst.Addr().Is6() != c.v6 {
					continue
				}
				a.send(t, b.between(a.mac, src, dst, c.tcp), 0)
				var in []byte
				add := func(f HashFields, data []byte) {
					if c.fields&f != 0 {
						in = append(in, data...)
					}
				}
				port := func(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }
				add(HashSrcIPv4|HashSrcIPv6, src.Addr().AsSlice())
				add(HashDstIPv4|HashDstIPv6, dst.Addr().AsSlice())
				add(HashSrcPortTCP|HashSrcPortUDP, port(src.Port()))
				add(HashDstPortTCP|HashDstPortUDP, port(dst.Port()))
				want := modelHash(in)
				switch c.fields {
				case v4, v6:
					if want != v.ofIP {
						t.Errorf("the model says %#x, the vector %#x", want, v.ofIP)
					}
				case v4 | tcp, v6 | tcp, v4 | udp, v6 | udp:
					if want != v.withPorts {
						t.Errorf("the model says %#x, the vector %#x", want, v.withPorts)
					}
				}
				if at := b.got(t); at != int(want%n) {
					t.Errorf("frame %d came to WQ %d, want %d", i, at, want%n)
				}
				where[want%n]++
			}
			// Frames without the fields are not hashed.
			other := packet(b.mac, a.mac, !c.v6, !c.tcp, 9)
			for _, f := range [][]byte{other, ethernet(b.mac, a.mac, 0x88b5, 64, 1)} {
				a.send(t, f, 0)
				if at := b.got(t); at != 0 {
					t.Errorf("a frame without these fields came to WQ %d", at)
				}
			}
		})
	}
}

// A WQ by itself: one place, no hash.
func TestRXE_WQ(t *testing.T) {
	a, b := newWQs(t, 1, WQOptions{MaxSGE: 2})
	if a == nil {
		return
	}
	wq, cq := b.wqs[0], b.cqs[0]
	b.spreads(t, 0)
	for i := range 3 * wqRecvs {
		want := ethernet(b.mac, a.mac, 0x88b5, 50+10*i, i)
		a.send(t, want, 0)
		frame, wc := b.wait(t, 0)
		if !bytes.Equal(frame, want) || wc.Opcode != WCRecv {
			t.Fatalf("frame %d: %x, %+v", i, frame[:20], wc)
		}
	}
	if n, err := wq.PostRecv([]RecvWR{{ID: 1}}); n != 0 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("a full WQ takes %d: %v", n, err)
	}
	plain := ethernet(b.mac, a.mac, 0x88b5, 100, 1)
	tagged := append(append(bytes.Clone(plain[:12]), 0x81, 0, 0x60, 42), plain[12:]...)
	for _, strip := range []bool{true, false} {
		attr := &WQAttr{FlagsMask: WQStripVLAN}
		want := tagged
		if strip {
			attr.Flags, want = WQStripVLAN, plain
		}
		ok(t, wq.Modify(attr, MaskWQFlags))
		a.send(t, tagged, 0)
		if frame, _ := b.wait(t, 0); !bytes.Equal(frame, want) {
			t.Errorf("strip %v: %x", strip, frame[:20])
		}
	}
	t.Run("no receive", func(t *testing.T) {
		// Nothing is lost of the WQ when frames find it empty.
		for range wqRecvs + 3 {
			a.send(t, plain, 0)
		}
		for k := range wqRecvs {
			var wc [1]WC
			if _, err := cq.Wait(timeout(t), wc[:]); err != nil || wc[0].Status != WCSuccess {
				t.Fatalf("receive %d: %+v, %v", k, wc[0], err)
			}
		}
		lists := []RecvWR{{ID: 3, SGEs: []SGE{b.mr.SGE(0, 10), b.mr.SGE(100, 2000)}},
			{ID: 4, SGEs: []SGE{b.mr.SGE(0, 60), b.mr.SGE(60, 54)}}}
		if n, err := wq.PostRecv(lists); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		for id := uint64(3); id < 5; id++ {
			a.send(t, plain, 0)
			var wc [1]WC
			if _, err := cq.Wait(timeout(t), wc[:]); err != nil || wc[0].ID != id || wc[0].Status != WCSuccess {
				t.Fatalf("%+v, %v", wc[0], err)
			}
			m := b.mr.Bytes()
			if id == 3 && (!bytes.Equal(m[:10], plain[:10]) || !bytes.Equal(m[100:204], plain[10:])) {
				t.Error("a list of two entries was filled in another way")
			}
		}
	})
	t.Run("reset", func(t *testing.T) {
		b.post(t, 0, 0)
		a.send(t, plain, 0) // its completion goes, too
		b.post(t, 0, 1)
		ok(t, wq.Modify(&WQAttr{State: WQReset}, MaskWQState))
		if _, err := wq.PostRecv([]RecvWR{{}}); err == nil {
			t.Error("a WQ in the state Reset takes receives")
		}
		a.send(t, plain, 0)
		b.ready(t, 0)
		a.send(t, tagged, 0)
		if frame, wc := b.wait(t, 0); wc.ID != 0 || !bytes.Equal(frame, tagged) {
			t.Errorf("%+v, %x", wc, frame[:20])
		}
	})
	t.Run("error", func(t *testing.T) {
		ok(t, wq.Modify(&WQAttr{State: WQReset}, MaskWQState))
		ok(t, wq.Modify(&WQAttr{State: WQReady}, MaskWQState))
		short := []RecvWR{{ID: 7, SGEs: []SGE{b.mr.SGE(0, 20)}}, {ID: 8, SGEs: []SGE{b.mr.SGE(0, 200)}}}
		if n, err := wq.PostRecv(short); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		a.send(t, plain, 0)
		for _, want := range []WC{{ID: 7, Status: WCLocLenErr}, {ID: 8, Status: WCWRFlushErr}} {
			var wc [1]WC
			if _, err := cq.Wait(timeout(t), wc[:]); err != nil || wc[0].ID != want.ID || wc[0].Status != want.Status {
				t.Fatalf("%+v, %v, want %+v", wc[0], err, want)
			}
		}
		for {
			ev := must(b.dev.AsyncEvent(timeout(t)))(t)
			if ev.Type == EventWQFatal {
				if ev.WQ != wq {
					t.Errorf("%+v is not about the WQ", ev)
				}
				break
			}
		}
		wantErr(t, wq.Modify(&WQAttr{State: WQReset}, MaskWQState), syscall.EINVAL, "Error if the WQ has failed")
		ok(t, wq.Modify(&WQAttr{State: WQReset, CurState: WQError}, MaskWQState|MaskWQCurState))
		b.ready(t, 0)
		a.send(t, plain, 0)
		b.wait(t, 0)
		wantErr(t, wq.Modify(&WQAttr{State: WQReset, CurState: WQError}, MaskWQState|MaskWQCurState), syscall.EINVAL,
			"Ready, unless the WQ has failed")
		ok(t, wq.Modify(&WQAttr{State: WQError, CurState: WQReady}, MaskWQState|MaskWQCurState))
		for range wqRecvs {
			var wc [1]WC
			if _, err := cq.Wait(timeout(t), wc[:]); err != nil || wc[0].Status != WCWRFlushErr {
				t.Fatalf("%+v, %v", wc[0], err)
			}
		}
		err := wq.Modify(&WQAttr{State: WQReady}, MaskWQState)
		wantErr(t, err, syscall.EINVAL, "Ready in state Error", "Reset")
		ok(t, wq.Modify(&WQAttr{State: WQReset}, MaskWQState))
	})
}

func TestRXE_WQScatterFCS(t *testing.T) {
	a, b := newWQs(t, 1, WQOptions{Flags: WQScatterFCS | WQStripVLAN})
	if a == nil {
		return
	}
	b.spreads(t, 0)
	plain := ethernet(b.mac, a.mac, 0x88b5, 100, 1)
	tagged := append(append(bytes.Clone(plain[:12]), 0x81, 0, 0x60, 42), plain[12:]...)
	a.send(t, tagged, 0)
	want := binary.LittleEndian.AppendUint32(bytes.Clone(plain), crc32.ChecksumIEEE(tagged))
	if frame, _ := b.wait(t, 0); !bytes.Equal(frame, want) {
		t.Errorf("%x\n%x", frame, want)
	}
}

// Posting and polling allocate nothing.
func TestRXE_WQAllocs(t *testing.T) {
	_, b := newWQs(t, 1, WQOptions{})
	if b == nil {
		return
	}
	wq := b.wqs[0]
	var wcs [wqRecvs]WC
	for _, size := range []int{1, 8} {
		wrs := make([]RecvWR, size)
		for i := range wrs {
			wrs[i] = RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(i*64, 64)}}
		}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := wq.PostRecv(wrs); err != nil && !errors.Is(err, ErrQueueFull) {
				t.Fatal(err)
			}
			if _, err := b.cqs[0].Poll(wcs[:]); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("posting %d allocates %v times", size, n)
		}
	}
}

// What is wrong with WQs, tables and hashes is said, and leaves nothing behind.
func TestRXE_WQBad(t *testing.T) {
	a, b := newWQs(t, 2, WQOptions{})
	if a == nil {
		return
	}
	dev, pd, wqs := b.dev, b.pd, b.wqs
	cq := closing(t, must(dev.CreateCQ(16, nil))(t))
	path, _ := cq.DataPath()
	for _, c := range []struct {
		what string
		cq   *CQ
		opt  WQOptions
		err  error
		want string
	}{
		{"no CQ", nil, WQOptions{}, syscall.EINVAL, "cq is nil"},
		{"another device's CQ", a.cq, WQOptions{}, syscall.EINVAL, "another Device"},
		{"negative", cq, WQOptions{MaxWR: -5}, syscall.EINVAL, "max_wr"},
		{"none", cq, WQOptions{MaxWR: None}, syscall.EINVAL, "max_wr"},
		{"too many", cq, WQOptions{MaxWR: 1 << 20}, syscall.EINVAL, "max_wr"},
		{"too many entries", cq, WQOptions{MaxSGE: 1000}, syscall.EINVAL, "max_sge"},
		{"an unknown flag", cq, WQOptions{Flags: 1 << 7}, syscall.EINVAL, "0x80"},
		{"delay drop", cq, WQOptions{Flags: WQDelayDrop}, ErrNotSupported, "DelayDrop"},
		{"padding", cq, WQOptions{Flags: WQPadWrites}, ErrNotSupported, "PadWrites"},
	} {
		_, err := pd.CreateWQ(c.cq, &c.opt)
		wantErr(t, err, c.err, "create wq", c.want)
	}
	other := must(a.dev.AllocPD())(t)
	_, err := other.CreateWQ(cq, nil)
	wantErr(t, err, syscall.EINVAL, "another Device")
	ok(t, other.Close())

	if path == DataPathDirect {
		_, err := pd.CreateWQ(b.cqs[0], nil)
		wantErr(t, err, ErrNotSupported, "a CQ for each", "DataPathOps")
		_, err = pd.CreateQP(b.cqs[0], b.cqs[0], nil)
		wantErr(t, err, ErrNotSupported, "has a WQ")
		qp := must(pd.CreateQP(cq, cq, nil))(t)
		_, err = pd.CreateWQ(cq, nil)
		wantErr(t, err, ErrNotSupported, "in use")
		ok(t, qp.Close())
		wq := must(pd.CreateWQ(cq, nil))(t)
		ok(t, wq.Close())
		ok(t, must(pd.CreateQP(cq, cq, nil))(t).Close())
	}

	far := newSide(t, 0, nil)
	farWQ := closing(t, must(far.pd.CreateWQ(far.cq, nil))(t))
	gone := must(pd.CreateWQ(cq, nil))(t)
	ok(t, gone.Close())
	for _, c := range []struct {
		what string
		wqs  []*WQ
		err  error
		want string
	}{
		{"empty", nil, syscall.EINVAL, "power of two"},
		{"three", []*WQ{wqs[0], wqs[1], wqs[0]}, syscall.EINVAL, "wqs is 3"},
		{"nil", []*WQ{wqs[0], nil}, syscall.EINVAL, "wqs[1]"},
		{"another device's", []*WQ{farWQ}, syscall.EINVAL, "another Device"},
		{"closed", []*WQ{wqs[0], gone}, ErrClosed, "create rwq ind table"},
		{"too large", make([]*WQ, 4096), syscall.EINVAL, "rwq ind table size"},
	} {
		_, err := dev.CreateRWQIndTable(c.wqs)
		wantErr(t, err, c.err, c.want)
	}

	table := must(dev.CreateRWQIndTable([]*WQ{wqs[0], wqs[1], wqs[1], wqs[1]}))(t)
	var be *BusyError
	if err := wqs[1].Close(); !errors.As(err, &be) {
		t.Errorf("closing the WQ of a table: %v", err)
	}
	farTable := closing(t, must(far.dev.CreateRWQIndTable([]*WQ{farWQ}))(t))
	v4 := HashSrcIPv4 | HashDstIPv4
	for _, c := range []struct {
		what string
		cq   *CQ
		opt  QPOptions
		rss  RSSOptions
		err  error
		want string
	}{
		{"a type", nil, QPOptions{Type: UD}, RSSOptions{Table: table, Fields: v4}, syscall.EINVAL, "Type is UD"},
		{"no type", nil, QPOptions{}, RSSOptions{Table: table, Fields: v4}, syscall.EINVAL, "Type is RC"},
		{"a CQ", cq, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4}, syscall.EINVAL, "CQs"},
		{"queues", nil, QPOptions{Type: RawPacket, MaxRecvWR: 3}, RSSOptions{Table: table, Fields: v4}, syscall.EINVAL,
			"no queues"},
		{"SGEs", nil, QPOptions{Type: RawPacket, MaxRecvSGE: 2}, RSSOptions{Table: table, Fields: v4}, syscall.EINVAL,
			"an RSS QP has no queues"},
		{"signals", nil, QPOptions{Type: RawPacket, SignalAll: true}, RSSOptions{Table: table, Fields: v4},
			syscall.EINVAL, "an RSS QP has no queues"},
		{"no table", nil, QPOptions{Type: RawPacket}, RSSOptions{Fields: v4}, syscall.EINVAL, "RSS.Table is nil"},
		{"another's table", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: farTable, Fields: v4}, syscall.EINVAL,
			"another Device"},
		{"two functions", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4, Function: 3},
			syscall.EINVAL, "one function"},
		{"another function", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4, Function: 2},
			ErrNotSupported, "Toeplitz"},
		{"an empty key", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4, Key: []byte{}},
			syscall.EINVAL, "40 bytes"},
		{"a short key", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4, Key: make([]byte, 39)},
			syscall.EINVAL, "39 bytes"},
		{"a long key", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4, Key: make([]byte, 200)},
			syscall.EINVAL, "200 bytes"},
		{"an endless key", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4,
			Key: make([]byte, 300)}, nil, "rss key bytes"},
		{"no fields", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table}, syscall.EINVAL, "4 places"},
		{"an SPI", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: HashIPsecSPI}, ErrNotSupported,
			"IPsecSPI"},
		{"both versions", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table, Fields: v4 | HashSrcIPv6},
			syscall.EINVAL, "one version"},
		{"both protocols", nil, QPOptions{Type: RawPacket}, RSSOptions{Table: table,
			Fields: HashSrcPortTCP | HashDstPortUDP}, syscall.EINVAL, "one protocol"},
	} {
		c.opt.RSS = &c.rss
		_, err := pd.CreateQP(c.cq, nil, &c.opt)
		if c.err == nil {
			c.err = errInvalid
		}
		wantErr(t, err, c.err, "create qp", c.want)
	}
	qp := must(pd.CreateQP(nil, nil, &QPOptions{Type: RawPacket, RSS: &RSSOptions{Table: table, Fields: v4}}))(t)
	if err := table.Close(); !errors.As(err, &be) {
		t.Errorf("closing the table of a QP: %v", err)
	}
	for _, err := range []error{
		qp.Modify(&QPAttr{State: StateInit, Port: 1}, MaskState|MaskPort),
		second(qp.Query(MaskState)), second(qp.Endpoint(1, 0)), qp.Init(nil), qp.Connect(Endpoint{}, nil),
		qp.AttachMcast(GID{0xff}, 0), second(qp.PostSend([]SendWR{{}})), second(qp.PostRecv([]RecvWR{{}})),
	} {
		wantErr(t, err, ErrNotSupported, "an RSS QP")
	}
	if qp.RSS() != table || qp.SendCQ() != nil || qp.RecvCQ() != nil || qp.PD() != pd || qp.Type() != RawPacket {
		t.Error("an RSS QP with queues")
	}
	ok(t, qp.Close())
	ok(t, table.Close())
	_, err = pd.CreateQP(nil, nil, &QPOptions{Type: RawPacket, RSS: &RSSOptions{Table: table, Fields: v4}})
	wantErr(t, err, ErrClosed)
	if _, err := gone.PostRecv([]RecvWR{{}}); !errors.Is(err, ErrClosed) {
		t.Errorf("posting to a closed WQ: %v", err)
	}
	wantErr(t, gone.Modify(&WQAttr{State: WQReady}, MaskWQState), ErrClosed, "modify wq")
	long := make([]SGE, 2)
	_, err = wqs[0].PostRecv([]RecvWR{{SGEs: long}})
	if err == nil {
		t.Error("a list that is too long was taken")
	}
	for _, c := range []struct {
		attr *WQAttr
		mask WQAttrMask
		want string
	}{
		{nil, MaskWQState, "attr is nil"},
		{&WQAttr{}, 0, "mask"},
		{&WQAttr{}, 8, "mask"},
		{&WQAttr{State: WQUnknown}, MaskWQState, "State is Unknown"},
		{&WQAttr{State: 17}, MaskWQState, "WQState(17)"},
		{&WQAttr{CurState: WQReset}, MaskWQCurState, "the state of the WQ, Ready"},
		{&WQAttr{Flags: 1 << 9}, MaskWQFlags, "0x200"},
		{&WQAttr{Flags: WQStripVLAN}, MaskWQFlags, "FlagsMask"},
	} {
		wantErr(t, wqs[0].Modify(c.attr, c.mask), syscall.EINVAL, "modify wq", c.want)
	}
	err = wqs[0].Modify(&WQAttr{Flags: WQPadWrites, FlagsMask: WQPadWrites}, MaskWQFlags)
	wantErr(t, err, ErrNotSupported, "PadWrites")
}
