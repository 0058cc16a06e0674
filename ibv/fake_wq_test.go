package ibv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
)

func fakeWQ(t testing.TB, opt *WQOptions) (*side, *WQ) {
	t.Helper()
	s := fakeSide(t, nil)
	return s, closing(t, must(s.pd.CreateWQ(s.cq, opt))(t))
}

// What a WQ is made of and changed to gets to the library, and what it tells gets back.
func TestFake_WQ(t *testing.T) {
	set(t, "raw_packet_caps", int(RawVLANStripping))
	set(t, "max_wq", 8)
	s, plain := fakeWQ(t, nil)
	if get(t, "wq.flags") != 0 || plain.Cap() != (WQCap{128, 1}) {
		t.Errorf("flags %#x, size %+v", get(t, "wq.flags"), plain.Cap())
	}
	w := closing(t, must(s.pd.CreateWQ(s.cq, &WQOptions{MaxWR: 4, MaxSGE: 2, Flags: WQStripVLAN | WQPadWrites}))(t))
	if get(t, "wq.flags") != 9 || w.Cap() != (WQCap{4, 2}) || w.Num() != 77 || w.PD() != s.pd || w.CQ() != s.cq {
		t.Errorf("flags %#x, %+v, number %d", get(t, "wq.flags"), w.Cap(), w.Num())
	}
	if path, why := w.DataPath(); path != DataPathOps || why == "" || w.State() != WQReset {
		t.Errorf("%v (%s) in state %v", path, why, w.State())
	}
	n, err := w.PostRecv(make([]RecvWR, 1))
	wantErr(t, err, syscall.EINVAL, "post wq recv", "state Reset", "WQReady")
	if n != 0 {
		t.Errorf("%d accepted in the state Reset", n)
	}
	ok(t, w.Modify(&WQAttr{State: WQReady, CurState: WQReset}, MaskWQState|MaskWQCurState))
	ok(t, w.Modify(&WQAttr{Flags: WQDelayDrop, FlagsMask: WQDelayDrop | WQStripVLAN}, MaskWQFlags))
	if got := []int{get(t, "wq.attr_mask"), get(t, "wq.new_flags"), get(t, "wq.flags_mask")}; !slices.Equal(got,
		[]int{4, 4, 5}) {
		t.Errorf("mask, flags and their mask are %d", got)
	}
	wrs := make([]RecvWR, 6)
	for i := range wrs {
		wrs[i] = RecvWR{ID: uint64(100 + i), SGEs: []SGE{s.mr.SGE(i*64, 64)}}
	}
	if n, err = w.PostRecv(wrs); n != 4 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("a WQ of 4 takes %d: %v", n, err)
	}
	wrs[0].SGEs = make([]SGE, 3)
	n, err = w.PostRecv(wrs[:1])
	wantErr(t, err, syscall.EINVAL, "sge 3", "work request 0")
	if n != 0 {
		t.Error(n)
	}
	ok(t, w.Modify(&WQAttr{State: WQError}, MaskWQState))
	for i := range 4 {
		if wc := s.next(t); wc.ID != uint64(100+i) || wc.Status != WCWRFlushErr {
			t.Errorf("flushed: %+v", wc)
		}
	}
	ev := must(s.dev.AsyncEvent(timeout(t)))(t)
	if ev.Type != EventWQFatal || ev.WQ != w || ev.QP != nil {
		t.Errorf("event %+v", ev)
	}
	wantText(t, ev.String(), "WQFatal on wq of fake0/")
	wantErr(t, w.Modify(&WQAttr{State: WQReady}, MaskWQState), syscall.EINVAL, "Ready in state Error")
	ok(t, w.Modify(&WQAttr{State: WQReset}, MaskWQState))
}

func wantText(t testing.TB, got, want string) {
	t.Helper()
	if !bytes.Contains([]byte(got), []byte(want)) {
		t.Errorf("%q does not have %q", got, want)
	}
}

// Table, function, key and fields get to the library.
func TestFake_RSS(t *testing.T) {
	s, w := fakeWQ(t, nil)
	set(t, "rss.types", 1<<RawPacket)
	set(t, "rss.functions", 1)
	set(t, "rss.fields", 0xff)
	set(t, "rss.table", 8)
	d := closing(t, must(Open("fake0"))(t))
	if r := d.attr.Ex.RSS; r.MaxIndirectionTableSize != 8 || r.HashFields != 0xff || r.HashFunctions != HashToeplitz ||
		r.QPTypes != 1<<RawPacket {
		t.Errorf("%+v", r)
	}
	v := closing(t, must(s.pd.CreateWQ(s.cq, nil))(t))
	table := closing(t, must(s.dev.CreateRWQIndTable([]*WQ{w, v, v, w}))(t))
	if !slices.Equal(table.WQs(), []*WQ{w, v, v, w}) || table.Device() != s.dev {
		t.Error("a table of other WQs")
	}
	for _, key := range [][]byte{nil, bytes.Repeat([]byte{1, 2, 3}, 13), {9}} {
		fields := HashSrcIPv6 | HashDstPortUDP | HashInner
		qp := must(s.pd.CreateQP(nil, nil, &QPOptions{Type: RawPacket,
			RSS: &RSSOptions{Table: table, Key: key, Fields: fields}}))(t)
		if key == nil {
			key = defaultRSSKey
		}
		got := bytesOf(t, "fv_rss", 16+len(key))
		if got[0] != 1 || int(got[1]) != len(key) || binary.NativeEndian.Uint64(got[8:]) != uint64(fields) ||
			!bytes.Equal(got[16:], key) {
			t.Errorf("the library got %x", got)
		}
		var busy *BusyError
		if err := table.Close(); !errors.As(err, &busy) || !slices.Contains(busy.Children, "1 rss qp") {
			t.Errorf("closing the table of an RSS QP: %v", err)
		}
		f := must(qp.CreateFlow(&FlowAttr{Port: 1}))(t)
		if err := qp.Close(); !errors.As(err, &busy) {
			t.Errorf("closing the QP of a rule: %v", err)
		}
		ok(t, f.Close())
		ok(t, qp.Close())
		ok(t, qp.Close())
	}
	set(t, "rss.bad_key", 3)
	_, err := s.pd.CreateQP(nil, nil, &QPOptions{Type: RawPacket,
		RSS: &RSSOptions{Table: table, Key: []byte{1, 2, 3}, Fields: HashSrcIPv4}})
	wantErr(t, err, syscall.EINVAL, "3 bytes", "40 bytes")
}

// Calls that the library refuses or lacks, and objects that cannot be destroyed.
func TestFake_WQRefused(t *testing.T) {
	s, w := fakeWQ(t, nil)
	table := closing(t, must(s.dev.CreateRWQIndTable([]*WQ{w}))(t))
	for _, c := range []struct {
		fn   string
		call func() error
		want string
	}{
		{"create_wq", func() error { return closed(s.pd.CreateWQ(s.cq, nil)) }, "MaxWQTypeRQ"},
		{"create_rwq_ind_table", func() error { return closed(s.dev.CreateRWQIndTable([]*WQ{w})) }, "type RawPacket"},
		{"create_qp_ex", func() error {
			return closed(s.pd.CreateQP(nil, nil, &QPOptions{Type: RawPacket, RSS: &RSSOptions{Table: table}}))
		}, "DeviceAttrEx.RSS"},
		{"modify_wq", func() error { return w.Modify(&WQAttr{FlagsMask: WQStripVLAN}, MaskWQFlags) }, "a new WQ"},
	} {
		failing(t, c.fn, syscall.EOPNOTSUPP)
		wantErr(t, c.call(), ErrNotSupported, "fake0", c.want)
		failing(t, c.fn, syscall.EIO)
		wantErr(t, c.call(), syscall.EIO)
		unset(t, "fail."+c.fn)
	}
	set(t, "overflow", 1)
	wantErr(t, closed(s.pd.CreateWQ(s.cq, &WQOptions{MaxSGE: 1 << 30})), syscall.EINVAL, "max_sge")
	unset(t, "overflow")
	for _, c := range []struct {
		fn string
		o  interface{ Close() error }
	}{{"destroy_rwq_ind_table", table}, {"destroy_wq", w}} { // the table keeps the WQ open
		failing(t, c.fn, syscall.EINVAL)
		if c.fn == "destroy_wq" {
			ok(t, table.Close())
		}
		wantErr(t, c.o.Close(), syscall.EINVAL, "close")
		unset(t, "fail."+c.fn)
	}
	ok(t, w.Close())
	_, err := w.PostRecv(make([]RecvWR, 1))
	wantErr(t, err, ErrClosed, "post wq recv")
	wantErr(t, w.Modify(&WQAttr{}, MaskWQState), ErrClosed, "modify wq")
	wantErr(t, w.Control(nil), ErrClosed, "control wq")
	wantErr(t, table.Control(nil), ErrClosed, "control rwq ind table")
	wantErr(t, closed(s.dev.CreateRWQIndTable([]*WQ{w})), ErrClosed, "create rwq ind table")
}

func TestFake_WQMissing(t *testing.T) {
	set(t, "null.wq", 1)
	s := fakeSide(t, nil)
	wantErr(t, closed(s.pd.CreateWQ(s.cq, nil)), ErrNotSupported, "libibverbs of rdma-core")
}

func TestFake_WQNames(t *testing.T) {
	for got, want := range map[string]string{
		fmt.Sprint(WQReset, WQReady, WQError, WQUnknown, WQState(17)): "Reset Ready Error Unknown WQState(17)",
		(WQScatterFCS | WQDelayDrop | 1<<9).String():                  "ScatterFCS|DelayDrop|0x200",
		(MaskWQState | MaskWQFlags).String():                          "State|Flags",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFake_WQAllocs(t *testing.T) {
	s, w := fakeWQ(t, nil)
	set(t, "sink", 1)
	ok(t, w.Modify(&WQAttr{State: WQReady}, MaskWQState))
	wrs := []RecvWR{{SGEs: []SGE{s.mr.SGE(0, 64)}}, {SGEs: []SGE{s.mr.SGE(64, 64)}}}
	if n := testing.AllocsPerRun(100, func() {
		if n, err := w.PostRecv(wrs); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("posting allocates %v times", n)
	}
}

func BenchmarkFake_WQPostRecv(b *testing.B) {
	s, w := fakeWQ(b, nil)
	set(b, "sink", 1)
	ok(b, w.Modify(&WQAttr{State: WQReady}, MaskWQState))
	wrs := []RecvWR{{SGEs: []SGE{s.mr.SGE(0, 64)}}}
	for b.Loop() {
		if _, err := w.PostRecv(wrs); err != nil {
			b.Fatal(err)
		}
	}
}
