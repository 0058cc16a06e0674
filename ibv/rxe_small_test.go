package ibv

import (
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_AnswerWC answers a datagram by an AH made from its completion, by each GID of the port that reaches the peer.
func TestRXE_AnswerWC(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, index := range []int{0, rxe.GID} {
		a, b := newSide(t, 0, nil), newSide(t, 1, nil)
		opt := &QPOptions{Type: UD}
		qa, qb := a.newQP(t, opt), b.newQP(t, opt)
		must(qa.Endpoint(rxe.Port, index))(t)
		eb := must(qb.Endpoint(rxe.Port, index))(t)
		ok(t, qa.Connect(Endpoint{}, nil))
		ok(t, qb.Connect(Endpoint{}, nil))
		to := must(qa.Address(eb, &ConnectOptions{TrafficClass: 0x20}))(t)
		ah := closing(t, must(a.pd.CreateAH(to))(t))

		recv(t, qb, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 140)}})
		fill(a.mr.Bytes()[:100], 3)
		post(t, qa, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 100)}, AH: ah,
			RemoteQPN: qb.Num(), RemoteQKey: DefaultQKey})
		a.good(t, 2)
		wc := b.good(t, 1)
		back := must(b.dev.AddressOfWC(rxe.Port, &wc, b.mr.Bytes()))(t)
		if mine := must(a.dev.QueryGID(rxe.Port, index))(t); back.Global && (back.DGID != mine ||
			int(back.SGIDIndex) != index) {
			t.Errorf("GID %d: the way back is %+v, want to %v", index, *back, mine)
		}
		answer := closing(t, must(b.pd.CreateAHFromWC(rxe.Port, &wc, b.mr.Bytes()))(t))
		recv(t, qa, RecvWR{ID: 3, SGEs: []SGE{a.mr.SGE(1000, 140)}})
		post(t, qb, SendWR{ID: 4, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{b.mr.SGE(40, 100)}, AH: answer,
			RemoteQPN: wc.SrcQPN, RemoteQKey: DefaultQKey})
		b.good(t, 4)
		a.good(t, 3)
		same(t, a.mr.Bytes()[1040:1140], 3)
	}
}

// TestRXE_SmallVerbs: what devices answer, or how they refuse.
func TestRXE_SmallVerbs(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, nil, nil)
	fresh := closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
	if !rxe.Emulated && !rxe.Hardware {
		_, err := fresh.QueryECE()
		wantErr(t, err, ErrNotSupported, "without ECE")
		wantErr(t, fresh.SetECE(ECE{0x2c9, 1}), ErrNotSupported, "without ECE")
	} else if e, err := fresh.QueryECE(); err == nil {
		if e.VendorID != 0x15b3 { // Mellanox
			t.Errorf("ECE %+v", e)
		}
		wantErr(t, fresh.SetECE(ECE{1, 0}), errInvalid, "VendorID")
		if err := fresh.SetECE(e); err != nil {
			wantErr(t, err, ErrNotSupported, "without ECE")
		}
	}
	if a.dev.attr.Ex == nil || a.dev.attr.Ex.PacketPacing.Max == 0 {
		wantErr(t, a.qp.ModifyRateLimit(RateLimit{Rate: 1000}), ErrNotSupported, "PacketPacing")
	}
	for _, op := range []Opcode{OpWrite, OpSend} {
		if o, err := a.qp.DataInOrder(op); err == nil && o&^(InOrderMessage|InOrder128) != 0 {
			t.Errorf("%v: %v", op, o)
		}
	}
	if !rxe.Emulated && !rxe.Hardware {
		to := must(a.qp.Address(must(b.qp.Endpoint(rxe.Port, rxe.GID))(t), nil))(t)
		mac, vlan, err := a.dev.ResolveMAC(to)
		peer := must(net.InterfaceByName(rxe.Net[1]))(t)
		if err != nil || mac.String() != peer.HardwareAddr.String() || vlan != -1 {
			t.Errorf("MAC %v, VLAN %d, %v; want %v", mac, vlan, err, peer.HardwareAddr)
		}
	}
}

// No provider but EFA's counts completions, and no library before v65.
func TestRXE_CompCountersRefused(t *testing.T) {
	dev := closing(t, must(Open(testutil.NeedRXE(t).Dev[0]))(t))
	_, err := dev.CreateCompCounter(CompCounterWRs)
	wantErr(t, err, ErrNotSupported, "a completion counter")
	_, err = dev.QueryCompCounters()
	wantErr(t, err, ErrNotSupported, "a completion counter")
}
