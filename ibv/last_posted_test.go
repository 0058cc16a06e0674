package ibv

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The line of each kind of work request: what is not there is not named, and no payload is.
func TestPosted_String(t *testing.T) {
	sge := []SGE{{Addr: 0x1000, Length: 64, LKey: 0x11}}
	at := RemoteAddr{Addr: 0x7000, RKey: 0x22}
	for _, c := range []struct {
		s    PostedSend
		want string
	}{
		{PostedSend{SendWR: SendWR{ID: 42, Opcode: OpWrite, Flags: Signaled, SGEs: sge, Remote: at}, Index: 17,
			State: PostedFailed, Status: WCRemAccessErr, VendorErr: 0x88},
			"17 id 0x2a FAILED with RemAccessErr (vendor syndrome 0x88): Write Signaled, 64 bytes, " +
				"remote 0x7000 rkey 0x22, sge 0x1000 64 bytes lkey 0x11"},
		{PostedSend{SendWR: SendWR{Opcode: OpSendImm, Flags: Inline | Fence, Imm: 5, RemoteQPN: 3, RemoteQKey: 4},
			InlineLen: 9}, "0: SendImm Fence|Inline, 9 bytes (inline 9), to qp 0x3, qkey 0x4, imm 0x5"},
		{PostedSend{SendWR: SendWR{Opcode: OpSend}, State: PostedOutstanding},
			"0 id 0x0 outstanding: Send, 0 bytes"},
		{PostedSend{SendWR: SendWR{Opcode: OpCompareSwap, SGEs: sge, Remote: at, CompareAdd: 1, Swap: 2,
			RemoteSRQN: 9}, State: PostedFlushed}, "0 id 0x0 flushed: CompareSwap, 64 bytes, to srq 0x9, " +
			"remote 0x7000 rkey 0x22, compare 0x1 swap 0x2, sge 0x1000 64 bytes lkey 0x11"},
		{PostedSend{SendWR: SendWR{Opcode: OpFetchAdd, CompareAdd: 7, DCStream: 2}, State: PostedCompleted},
			"0 id 0x0 completed: FetchAdd, 0 bytes, stream 2, remote 0x0 rkey 0x0, add 0x7"},
		{PostedSend{SendWR: SendWR{Opcode: OpLocalInv, InvalidateRKey: 6}}, "0: LocalInv, invalidates rkey 0x6"},
		{PostedSend{SendWR: SendWR{Opcode: OpMaskedFetchAdd, Masked: &MaskedAtomic{Size: 16}}},
			"0: MaskedFetchAdd, 0 bytes, remote 0x0 rkey 0x0, operands of 16 bytes"},
		{PostedSend{SendWR: SendWR{Opcode: OpBindMW}, Change: &PostedChange{Key: 1, NewKey: 2, LKey: 3, Addr: 4,
			Length: 5, Access: RemoteRead}},
			"0: BindMW, key 0x1 becomes 0x2, 5 bytes, at 0x4 lkey 0x3, access RemoteRead"},
		{PostedSend{SendWR: SendWR{Opcode: OpBindMW}, Change: &PostedChange{Key: 1, NewKey: 2}},
			"0: BindMW, key 0x1 becomes 0x2"},
		{PostedSend{SendWR: SendWR{Opcode: OpTSO, TSO: &TSO{MSS: 1400}, SGEs: sge}, HeaderLen: 54},
			"0: TSO, 118 bytes (header 54, inline 0), mss 1400, sge 0x1000 64 bytes lkey 0x11"},
		{PostedSend{SendWR: SendWR{Opcode: OpMemcpy, SGEs: []SGE{sge[0], sge[0]}}},
			"0: Memcpy, 64 bytes, sge 0x1000 64 bytes lkey 0x11, sge 0x1000 64 bytes lkey 0x11"},
		{PostedSend{SendWR: SendWR{Opcode: ^Opcode(0)}, DeviceOpcode: 0x28, Damaged: true},
			"0: device opcode 0x28, DAMAGED: something overwrote it"},
	} {
		if got := fmt.Sprint(c.s); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
	p := &Posted{QP: "mlx5_0/0x000041", Sends: make([]PostedSend, 1),
		Recvs: []PostedRecv{{RecvWR: RecvWR{ID: 7, SGEs: sge}, Index: 3, State: PostedOutstanding}}}
	want := "qp mlx5_0/0x000041 (QPType(0)): 1 sends and 1 receives, the oldest first\n" +
		"send 0: Write, 0 bytes, remote 0x0 rkey 0x0\n" +
		"recv 3 id 0x7 outstanding: 64 bytes, sge 0x1000 64 bytes lkey 0x11"
	if got := p.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if s := PostedState(9).String(); s != "PostedState(9)" {
		t.Error(s)
	}
	if s := (*Posted)(nil).String(); s == "" {
		t.Error("nothing is said of none")
	}
}

func TestPosted_Around(t *testing.T) {
	list := func(states ...PostedState) (p Posted) {
		for i, s := range states {
			p.Sends = append(p.Sends, PostedSend{Index: uint16(i), State: s})
			p.Recvs = append(p.Recvs, PostedRecv{Index: uint16(i), State: s})
		}
		return p
	}
	const done, bad, gone = PostedCompleted, PostedFailed, PostedFlushed
	for _, c := range []struct {
		states     []PostedState
		n          int
		first, end int
	}{
		{[]PostedState{done, done, done, bad, gone, gone, gone}, 1, 2, 5},
		{[]PostedState{done, bad, gone}, 5, 0, 3},
		{[]PostedState{done, bad, gone}, 0, 1, 2},
		{[]PostedState{done, bad, gone}, -3, 1, 2},
		{[]PostedState{bad, done, done, bad}, 1, 2, 4},
		{[]PostedState{done, done, done}, 1, 1, 3},
		{nil, 4, 0, 0},
	} {
		p := list(c.states...)
		q := p.Around(c.n)
		if len(q.Sends) != c.end-c.first || len(q.Recvs) != len(q.Sends) ||
			len(q.Sends) > 0 && (int(q.Sends[0].Index) != c.first || int(q.Recvs[0].Index) != c.first) {
			t.Errorf("%v, %d: %v", c.states, c.n, q)
		}
	}
}

// A provider without rings of ours says so, with the way out.
func TestFake_LastPosted(t *testing.T) {
	a, _ := fakePair(t, nil)
	post(t, a.qp, write(a, 1, Signaled))
	_, err := a.qp.LastPosted(4)
	var ue *UnsupportedError
	if !errors.As(err, &ue) || !strings.Contains(ue.Need, "under its ID") {
		t.Errorf("%v", err)
	}
	wantErr(t, err, ErrNotSupported, a.qp.name)
	wc := WC{Status: WCRemAccessErr, ID: 1, QPN: a.qp.Num()}
	if e := a.qp.Explain(&wc, 3).(*WCError); e.Posted != nil || e.ID != 1 || e.Status != WCRemAccessErr {
		t.Errorf("%+v", e)
	}
	if err := a.qp.Explain(&WC{}, 3); err != nil {
		t.Errorf("a success is %v", err)
	}
	_, err = a.qp.LastPosted(-2)
	wantErr(t, err, errInvalid, "-2", "1 or more")
	gone := must(a.pd.CreateQP(a.cq, a.cq, nil))(t)
	ok(t, gone.Close())
	_, err = gone.LastPosted(1)
	wantErr(t, err, ErrClosed)
}
