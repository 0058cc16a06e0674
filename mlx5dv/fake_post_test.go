package mlx5dv

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// fakePosting posts mlx5's own work requests on the ops data path, and compares what libmlx5 was told.
func fakePosting(t *testing.T, dev *ibv.Device) {
	fakeCall(t, "fake_caps", capCopy)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: ibv.DataPathOps}))(t))
	qp := closing(t, must(CreateQP(pd, cq, cq, &QPOptions{QPOptions: ibv.QPOptions{MaxSendWR: 64, MaxInline: 256},
		DriverOps: allOps}))(t))
	ok(t, qp.Connect(must(qp.Endpoint(1, 0))(t), nil))
	key := closing(t, must(CreateMkey(pd, nil))(t))
	sges := []ibv.SGE{{Addr: 0x1000, Length: 8, LKey: 0x11}, {Addr: 1 << 40, Length: 16, LKey: 0x22}}
	blocks := []Block{{Addr: 0x3000, Bytes: 4, Skip: 12, LKey: 0x33}}
	wqe := make([]byte, 16)
	binary.BigEndian.PutUint32(wqe[4:], qp.Num()<<8|1) // segments
	wqe[0], wqe[11], wqe[15] = 0x12, 8, 0x34           // signaled
	const list, repeated = " [1000 8 11] [10000000000 16 22]", " 5 times [3000 4 12 33]"
	var all []ibv.SendWR
	var want string
	for _, c := range []struct {
		change MkeyConfig
		wr     ibv.SendWR
		say    string
	}{
		{MkeyConfig{Access: ibv.LocalWrite | ibv.RemoteRead, List: sges}, ibv.SendWR{ID: 1},
			"1/8 list 123400 5" + list},
		{MkeyConfig{Access: ibv.RemoteWrite, Blocks: blocks, Repeat: 5}, ibv.SendWR{ID: 2, Flags: ibv.Signaled},
			"2/a interleaved 123400 2" + repeated},
		{MkeyConfig{Access: ibv.RemoteAtomic}, ibv.SendWR{ID: 3}, "3/8 configure 123400 0 access 8"},
		{MkeyConfig{Access: ibv.AccessNone}, ibv.SendWR{ID: 4}, "4/8 configure 123400 0 access 0"},
		{MkeyConfig{List: sges}, ibv.SendWR{ID: 5, Flags: ibv.Fence}, "5/9 configure 123400 0 list" + list},
		{MkeyConfig{Blocks: blocks, Repeat: 5}, ibv.SendWR{ID: 1 << 60},
			"1152921504606846976/8 configure 123400 0 interleaved" + repeated},
		{wr: Memcpy(7, ibv.Signaled, ibv.SGE{Addr: 0x10, Length: 100, LKey: 1},
			ibv.SGE{Addr: 1 << 44, Length: 100, LKey: 2}), say: "7/2 memcpy 1:10 2:100000000000 100"},
		{wr: RawWQE(8, wqe), say: "8/2 raw 12 34"},
	} {
		wr := c.wr
		if wr.Opcode == 0 {
			wr.Opcode, wr.Mkey = ibv.OpDriver1, must(key.Change(&c.change))(t)
		}
		post(t, qp, wr)
		wantSaid(t, "\n"+c.say)
		all, want = append(all, wr), want+"\n"+c.say
	}
	post(t, qp, all...)
	wantSaid(t, want)
	var few []ibv.SendWR // no change is posted of a key that is closed, nor what comes behind it
	gone := must(CreateMkey(pd, nil))(t)
	few = append(few, all[6], ibv.SendWR{Opcode: ibv.OpDriver1, Mkey: must(gone.Change(&MkeyConfig{List: sges}))(t)},
		all[7])
	ok(t, gone.Close())
	if n, err := qp.PostSend(few); n != 1 || err == nil || !strings.Contains(err.Error(), "mkey") {
		t.Errorf("posted %d, %v", n, err)
	}
	wantSaid(t, "\n7/2 memcpy 1:10 2:100000000000 100")
	var l *ibv.LimitError
	_, err := qp.PostSend([]ibv.SendWR{Memcpy(1, 0, ibv.SGE{Length: 4097}, ibv.SGE{Length: 4097})})
	if !errors.As(err, &l) || l.Limit != 4096 {
		t.Errorf("a copy of 4097 bytes: %v", err)
	}
	wantSaid(t, "")
}

// wantSaid compares what the fake libmlx5 was told.
func wantSaid(t *testing.T, want string) {
	t.Helper()
	if got := cmem.String(uintptr(fakeCall(t, "fake_said"))); got != want {
		t.Errorf("told %q\nwant %q", got, want)
	}
}
