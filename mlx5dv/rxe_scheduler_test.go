package mlx5dv

import (
	"errors"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXEScheduler makes a tree, attaches a QP to it in INIT and in RTS, and paces. Rates have no effect on the
// emulated device. An adapter that lacks these says so.
func TestRXEScheduler(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	rxe := testutil.NeedRXE(t)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(4, nil))(t))
	qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	self := must(qp.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, qp.Init(nil))
	root, err := CreateSchedRoot(dev)
	if err != nil && !rxe.Emulated {
		wantUnsupported(t, "a scheduler", err)
		wantUnsupported(t, "a QP by default", ScheduleQP(qp, nil, nil))
		return
	}
	ok(t, err)
	closing(t, root)
	node := closing(t, must(root.CreateNode(&SchedOptions{MaxMbps: 10}))(t))
	leaf := closing(t, must(node.CreateLeaf(&SchedOptions{Share: 2, MaxMbps: 5}))(t))
	ok(t, leaf.Modify(&SchedOptions{Share: 3}))
	ok(t, node.Modify(&SchedOptions{MaxMbps: 20}))
	ok(t, ScheduleQP(qp, leaf, leaf))
	ok(t, qp.Connect(self, nil))
	ok(t, ScheduleQP(qp, nil, leaf))

	const kbps = 100
	pace := func(f PacketPacingFlags) uint16 {
		return closing(t, must(AllocPacketPacing(dev, []byte{0, 0, 0, kbps}, f))(t)).Index()
	}
	one, same, own := pace(0), pace(0), pace(PacingDedicated)
	if one == 0 || one != same || own == one {
		t.Errorf("indices %d, %d and %d, want the first two the same", one, same, own)
	}
	if _, err := AllocPacketPacing(dev, []byte{0, 0, 0, 0}, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no rate: %v", err)
	}
}
