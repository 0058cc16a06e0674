package ibv

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Fields polls by struct ibv_cq_ex, or the ring itself with its fields, and compares with what was sent.
func TestRXE_Fields(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	fields := FieldsStandard
	if rxe.Emulated || rxe.Hardware {
		fields |= FieldTimestamp | FieldWallClock | FieldCVLAN | FieldFlowTag
	} else {
		// SoftRoCE has the fields of a plain poll only.
		dev := closing(t, must(Open(rxe.Dev[0]))(t))
		for _, f := range []WCFields{FieldTimestamp, FieldSL | FieldWallClock, FieldTMInfo} {
			_, err := dev.CreateCQ(16, &CQOptions{Fields: f})
			wantErr(t, err, ErrNotSupported, f.String(), rxe.Dev[0], "create_cq_ex")
		}
		_, err := dev.QueryRTValues()
		wantErr(t, err, ErrNotSupported, "clock", rxe.Dev[0])
	}
	for _, single := range []bool{false, true} {
		s := newSide(t, 0, &CQOptions{Fields: fields, SingleThreaded: single})
		qp := s.newQP(t, nil)
		ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
		var lastTicks, lastWall uint64
		next := func(id uint64, bad bool) WCEx {
			t.Helper()
			var one [1]WCEx
			must(s.cq.WaitEx(timeout(t), one[:]))(t)
			wc := one[0]
			if wc.ID != id || wc.QPN != qp.Num() || (wc.Status != WCSuccess) != bad {
				t.Fatalf("got %+v, want the completion of %d", wc, id)
			}
			if bad {
				if wc.ByteLen != 0 || wc.Opcode != 0 || wc.Timestamp != 0 || wc.WallClock != 0 {
					t.Errorf("fields of a failure: %+v", wc)
				}
				return wc
			}
			if fields&FieldTimestamp != 0 {
				if wc.Timestamp <= lastTicks && lastTicks != 0 || wc.Timestamp == 0 {
					t.Errorf("a timestamp of %d after %d", wc.Timestamp, lastTicks)
				}
				if d := time.Since(time.Unix(0, int64(wc.WallClock))); d < -time.Hour || d > time.Hour ||
					wc.WallClock < lastWall {
					t.Errorf("a wall clock of %d after %d, %v ago", wc.WallClock, lastWall, d)
				}
				lastTicks, lastWall = wc.Timestamp, wc.WallClock
			}
			return wc
		}
		sge := func(n int) []SGE { return []SGE{s.mr.SGE(1024, n)} }
		for i, n := range []int{8, 32, 200} { // in the completion itself, and not
			recv(t, qp, RecvWR{ID: 1, SGEs: []SGE{s.mr.SGE(0, 256)}})
			fill(s.mr.Bytes()[1024:][:n], i)
			clear(s.mr.Bytes()[:256])
			post(t, qp, SendWR{ID: 2, Opcode: OpSendImm, Flags: Signaled, SGEs: sge(n), Imm: 0xa1b2c3d4})
			// The order of the two is the device's.
			var in, out WCEx
			for range 2 {
				var one [1]WCEx
				must(s.cq.WaitEx(timeout(t), one[:]))(t)
				if one[0].ID == 1 {
					in = one[0]
				} else {
					out = one[0]
				}
			}
			if out.Opcode != WCSend || out.Status != WCSuccess {
				t.Errorf("send of %d bytes: %+v", n, out)
			}
			if in.Opcode != WCRecv || in.ByteLen != uint32(n) || in.Imm != 0xa1b2c3d4 || in.Flags&WCWithImm == 0 ||
				in.QPN != qp.Num() {
				t.Errorf("receive of %d bytes: %+v", n, in)
			}
			if in.CVLAN != 0 { // libmlx5 would take that of an entry with payload from the payload
				t.Errorf("receive of %d bytes: a VLAN of %#x", n, in.CVLAN)
			}
			if fields&FieldFlowTag != 0 && in.FlowTag != qp.Num() {
				t.Errorf("a receive that no flow took has its QPN there, got %#x", in.FlowTag)
			}
			same(t, s.mr.Bytes()[:n], i)
		}
		post(t, qp, SendWR{ID: 3, Opcode: OpRead, Flags: Signaled, SGEs: sge(64), Remote: s.mr.Remote().At(0)})
		if wc := next(3, false); wc.Opcode != WCRead || wc.ByteLen != 64 {
			t.Errorf("read: %+v", wc)
		}
		post(t, qp, SendWR{ID: 4, Opcode: OpFetchAdd, Flags: Signaled, SGEs: sge(8), Remote: s.mr.Remote().At(0),
			CompareAdd: 1})
		if wc := next(4, false); wc.Opcode != WCFetchAdd || wc.ByteLen != 8 {
			t.Errorf("fetch-add: %+v", wc)
		}
		var wcs [4]WC // a plain Poll finds them as well
		for id := range uint64(10) {
			post(t, qp, SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: sge(8), Remote: s.mr.Remote().At(0)})
		}
		for id := uint64(0); id < 10; {
			n := must(s.cq.Wait(timeout(t), wcs[:]))(t)
			for _, wc := range wcs[:n] {
				if wc.ID != id || wc.Opcode != WCWrite || (wc.Timestamp != 0) != (fields&FieldTimestamp != 0) &&
					s.cq.path == DataPathOps {
					t.Errorf("write %d: %+v", id, wc)
				}
				id++
			}
		}
		if fields&FieldTimestamp != 0 {
			ex := s.dev.attr.Ex
			if ex == nil || ex.HCACoreClockKHz == 0 || ex.CompletionTimestampMask == 0 {
				t.Fatalf("no clock: %+v", ex)
			}
			// The clock that a program reads may lag behind that of completions.
			testutil.Eventually(t, "a clock at or after the last completion", func() bool {
				now := must(s.dev.QueryRTValues())(t).RawClock
				ahead := (now - lastTicks) & ex.CompletionTimestampMask
				return ahead < math.MaxInt64 && ex.Ticks(ahead) < time.Hour
			})
		}
		post(t, qp, SendWR{ID: 5, Opcode: OpWrite, Flags: Signaled, SGEs: sge(8), Remote: RemoteAddr{Addr: 1}})
		if wc := next(5, true); wc.Status != WCRemAccessErr || wc.VendorErr == 0 && fields&FieldTimestamp != 0 {
			t.Errorf("a write to nowhere: %+v", wc)
		}
	}
	if s := newSide(t, 0, nil); s.cq.path == DataPathDirect {
		_, err := s.dev.CreateCQ(16, &CQOptions{Fields: FieldTMInfo, DataPath: DataPathDirect})
		wantErr(t, err, ErrNotSupported, "TMInfo", "DataPathOps")
	}
}

// TestRXE_ServiceLevel receives a datagram sent with service level 5, on SoftRoCE 0. Without a VLAN tag the completion
// and the address of a reply have 0. With a tag both have 5, its priority. On Ethernet mlx5 has the type of the packet
// in the place of the service level (Linux, drivers/infiniband/hw/mlx5/cq.c, handle_responder).
func TestRXE_ServiceLevel(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	usual, _ := newSide(t, 1, nil).cq.DataPath()
	for i, fields := range []WCFields{0, FieldSL | FieldSLID, 0, FieldSL, FieldSL | FieldCVLAN} {
		path, vlan := usual, i >= 2 // by the netdev of a VLAN
		if fields != 0 && path == DataPathDirect {
			path = DataPathOps
		}
		if vlan && !rxe.Emulated {
			break
		}
		t.Run(fmt.Sprintf("%v %d", path, i), func(t *testing.T) {
			serviceLevel(t, rxe, path, fields, vlan)
		})
	}
}

func serviceLevel(t *testing.T, rxe testutil.RXE, path DataPath, fields WCFields, vlan bool) {
	testutil.NeedControl(t)
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	gidA, gidB, want, opt := rxe.GID, rxe.GID, uint8(0), &ConnectOptions{}
	if rxe.Emulated {
		opt.SL = 5
	}
	if vlan {
		gidA, gidB = vlanGID(t, a.dev), vlanGID(t, b.dev)
	}
	sends := closing(t, must(a.dev.CreateCQ(16, nil))(t))
	if vlan && (path == DataPathDirect || fields&FieldCVLAN != 0) {
		want = 5
	}
	cq := closing(t, must(b.dev.CreateCQ(16, &CQOptions{Fields: fields, DataPath: path}))(t))
	qa := closing(t, must(a.pd.CreateQP(sends, sends, &QPOptions{Type: UD}))(t))
	qb := closing(t, must(b.pd.CreateQP(cq, cq, &QPOptions{Type: UD}))(t))
	must(qa.Endpoint(rxe.Port, gidA))(t)
	to := must(qb.Endpoint(rxe.Port, gidB))(t)
	ok(t, qa.Connect(Endpoint{}, nil))
	ok(t, qb.Connect(Endpoint{}, nil))
	ah := closing(t, must(a.pd.CreateAH(must(qa.Address(to, opt))(t)))(t))
	recv(t, qb, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 200)}})
	post(t, qa, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}, AH: ah,
		RemoteQPN: qb.Num(), RemoteQKey: DefaultQKey})
	var wc [1]WC
	must(sends.Wait(timeout(t), wc[:]))(t)
	must(cq.Wait(timeout(t), wc[:]))(t)
	back := closing(t, must(b.pd.CreateAHFromWC(rxe.Port, &wc[0], b.mr.Bytes()[:40]))(t))
	if wc[0].Err() != nil || wc[0].SL != want || back.Attr().SL != want {
		t.Errorf("%v, VLAN %v: %+v, the reply's service level is %d", fields, vlan, wc[0], back.Attr().SL)
	}
}

// vlanGID returns the index of the RoCE v2 address of a VLAN's netdev.
func vlanGID(t *testing.T, dev *Device) int {
	t.Helper()
	for _, g := range must(dev.GIDTable())(t) {
		if g.Type == GIDTypeRoCEv2 && strings.Contains(g.Netdev, ".") {
			return g.Index
		}
	}
	t.Fatal("no VLAN")
	return 0
}
