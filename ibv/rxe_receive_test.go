package ibv

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_PageFault has receives of an SRQ that the device gives up because of page faults. They are posted again, and
// each message is in the receive that its completion names.
func TestRXE_PageFault(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated {
		t.Skip("nothing else makes page faults: runs on the emulated device only")
	}
	const messages = 40
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	srq := closing(t, must(b.pd.CreateSRQ(&SRQOptions{MaxWR: messages + 1}))(t))
	a.newQP(t, nil)
	b.newQP(t, &QPOptions{SRQ: srq})
	ea, eb := must(a.qp.Endpoint(rxe.Port, rxe.GID))(t), must(b.qp.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, a.qp.Connect(eb, nil))
	ok(t, b.qp.Connect(ea, nil))
	inject(t, "page-fault:every=2,device="+rxe.Dev[0])
	_, err := srq.PostRecv([]RecvWR{{ID: 99, SGEs: []SGE{b.mr.SGE(4088, 8)}}}) // one more, for a fault of the last one
	ok(t, err)
	ids := numbered(t, a, b, func(wr RecvWR) error {
		_, err := srq.PostRecv([]RecvWR{wr})
		return err
	}, messages)
	if ids[0] != 99 || ids[1] != 101 { // the second message found receive 100
		t.Errorf("receives %v", ids)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != messages {
		t.Errorf("a receive completed twice: %v", ids)
	}
}

// TestRXE_ReceiveOrder has receives that complete in another order than they were posted.
func TestRXE_ReceiveOrder(t *testing.T) {
	const every = 3 // messages
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, &QPOptions{MaxRecvWR: 8}, nil)
	if path, _ := b.qp.DataPath(); !rxe.Emulated || path != DataPathDirect && libraryRelease(t) < 55 {
		// libmlx5 since v55, and the direct data path (providers/mlx5/cq.c)
		t.Skip("takes a library that reads from a completion which receive it is of: runs on the emulated device only")
	}
	inject(t, fmt.Sprintf("receive-order:every=%d,device=%s", every, rxe.Dev[0]))
	for round, sent := 0, 0; round < 8; round++ {
		var want, queue []uint64
		for i := range uint64(8) {
			queue = append(queue, 100+i)
		}
		for len(queue) > 0 {
			at := 0
			if sent++; sent%every == 0 && len(queue) > 1 {
				at = 1
			}
			want, queue = append(want, queue[at]), slices.Delete(queue, at, at+1)
		}
		ids := numbered(t, a, b, func(wr RecvWR) error {
			_, err := b.qp.PostRecv([]RecvWR{wr})
			return err
		}, 8)
		if !slices.Equal(ids, want) {
			t.Fatalf("round %d: receives %v, want %v", round, ids, want)
		}
	}
}

// inject makes the emulated device inject a fault until the test ends.
func inject(t *testing.T, spec string) {
	t.Helper()
	e := emutest.Need(t)
	id := must(e.Inject(spec))(t)
	t.Cleanup(func() { ok(t, e.ClearFault(id)) })
}

// numbered posts n receives of 8 bytes, sends as many messages, and returns the IDs of the receives in the order of the
// messages.
func numbered(t *testing.T, a, b *side, post1 func(RecvWR) error, n int) (ids []uint64) {
	t.Helper()
	for i := range n {
		ok(t, post1(RecvWR{ID: uint64(100 + i), SGEs: []SGE{b.mr.SGE(64*i, 8)}}))
	}
	for i := range n {
		text := fmt.Sprintf("no. %4d", i)
		copy(a.mr.Bytes(), text)
		post(t, a.qp, SendWR{ID: uint64(i), Opcode: OpSendImm, Imm: uint32(i), Flags: Signaled,
			SGEs: []SGE{a.mr.SGE(0, 8)}})
		a.good(t, uint64(i))
		wc := b.next(t)
		ok(t, wc.Err())
		at := 4088
		if wc.ID >= 100 {
			at = 64 * int(wc.ID-100)
		}
		if got := string(b.mr.Bytes()[at:][:8]); wc.Imm != uint32(i) || got != text {
			t.Errorf("message %d is %q in receive %d, with number %d", i, got, wc.ID, wc.Imm)
		}
		ids = append(ids, wc.ID)
	}
	return ids
}
