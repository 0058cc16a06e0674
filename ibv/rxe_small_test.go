package ibv

import (
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_AnswerWC answers a datagram by an AH made from its completion, by each GID of the port that reaches the peer.
func TestRXE_AnswerWC(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, index := range []int{0, rxe.GIDs[0]} {
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
	a, _ := newPair(t, nil, nil)
	fresh := closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
	const mellanox = 0x15b3
	switch e, err := fresh.QueryECE(); {
	case lacks(t, err, 31):
		if err := fresh.SetECE(ECE{mellanox, 1}); !lacks(t, err, 31) {
			t.Errorf("set ECE: %v", err)
		}
	case soft(rxe):
		wantErr(t, err, ErrNotSupported, "without ECE")
		wantErr(t, fresh.SetECE(ECE{mellanox, 1}), ErrNotSupported, "without ECE")
	case err != nil || e.VendorID != mellanox || rxe.Emulated && e.Options != 0:
		t.Errorf("ECE %+v, %v", e, err)
	default:
		wantErr(t, fresh.SetECE(ECE{1, 0}), errInvalid, "VendorID")
		if err := fresh.SetECE(e); e.Options == 0 { // the emulated firmware has none
			wantErr(t, err, ErrNotSupported, "without ECE")
		} else if err != nil {
			t.Errorf("the options that it has itself: %v", err)
		}
	}
	if a.dev.attr.Ex == nil || a.dev.attr.Ex.PacketPacing.Max == 0 {
		wantErr(t, a.qp.ModifyRateLimit(RateLimit{Rate: 1000}), ErrNotSupported, "PacketPacing")
	} else if !rxe.Hardware {
		wantErr(t, a.qp.ModifyRateLimit(RateLimit{Rate: 1000}), ErrNotSupported, "a RC QP", "RawPacket")
	}
	for _, op := range []Opcode{OpWrite, OpSend} {
		o, err := a.qp.DataInOrder(op)
		switch {
		case lacks(t, err, 36):
		case err != nil || o&^(InOrderMessage|InOrder128) != 0 || o != 0 && !rxe.Hardware:
			t.Errorf("%v: %v, %v; no software device promises an order", op, o, err)
		}
	}
}

// TestRXE_ResolveMAC resolves the addresses of all GIDs of RoCE v2: in the VM those of the peer, elsewhere the device's
// own, because nobody answers ARP on an emulated device.
func TestRXE_ResolveMAC(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedRoCE(t)
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	if !soft(rxe) {
		b = a
	}
	from, to := a.newQP(t, nil), b.newQP(t, nil)
	gids := 0
	for _, e := range must(a.dev.GIDTable())(t) {
		if e.Port != rxe.Port || e.Type != GIDTypeRoCEv2 {
			continue
		}
		must(from.Endpoint(rxe.Port, e.Index))(t)
		address := must(from.Address(must(to.Endpoint(rxe.Port, e.Index))(t), nil))(t)
		mac, vlan, err := a.dev.ResolveMAC(address)
		name := e.Netdev
		if soft(rxe) {
			name = rxe.Net[1]
		}
		want := must(net.InterfaceByName(name))(t).HardwareAddr
		if err != nil || mac.String() != want.String() || vlan != -1 { // the way to oneself has no VLAN
			t.Errorf("%v: MAC %v, VLAN %d, %v; want %v, no VLAN", e, mac, vlan, err, want)
		}
		gids++
	}
	if gids < 2 {
		t.Errorf("%d GIDs of RoCE v2", gids)
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
