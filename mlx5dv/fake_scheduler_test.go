package mlx5dv

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

func lastArgs(t *testing.T) [4]int {
	t.Helper()
	return [4]int{lastArg(t, 0), lastArg(t, 1), lastArg(t, 2), lastArg(t, 3)}
}

func fakeScheduler(t *testing.T, dev *ibv.Device) {
	root := must(CreateSchedRoot(dev))(t)
	if root.Parent() != nil || root.Device() != dev || lastArgs(t) != [4]int{} {
		t.Errorf("the root was made of %v", lastArgs(t))
	}
	node := must(root.CreateNode(&SchedOptions{MaxMbps: 900}))(t)
	if got, want := lastArgs(t), [4]int{int(root.handle), 2, 0, 900}; got != want {
		t.Errorf("a node was made of %v, want %v", got, want)
	}
	leaf := must(node.CreateLeaf(&SchedOptions{Share: 7, MaxMbps: 5}))(t)
	if got, want := lastArgs(t), [4]int{int(node.handle), 3, 7, 5}; got != want {
		t.Errorf("a leaf was made of %v, want %v", got, want)
	}
	other := must(root.CreateLeaf(nil))(t)
	if got, want := lastArgs(t), [4]int{int(root.handle), 0, 0, 0}; got != want {
		t.Errorf("a leaf without options was made of %v, want %v", got, want)
	}
	if leaf.Parent() != node || node.Parent() != root {
		t.Error("another tree")
	}
	ok(t, leaf.Modify(&SchedOptions{Share: 9}))
	if got, want := lastArgs(t), [4]int{int(node.handle), 3, 9, 0}; got != want {
		t.Errorf("a leaf was changed to %v, want %v", got, want)
	}
	ok(t, node.Modify(&SchedOptions{}))
	if got, want := lastArgs(t), [4]int{int(root.handle), 3, 0, 0}; got != want {
		t.Errorf("a node was changed to %v, want %v", got, want)
	}
	wantArg(t, "changing the root", "node", root.Modify(&SchedOptions{}))
	wantArg(t, "changing nothing", "opt", leaf.Modify(nil))
	_, err := root.CreateLeaf(&SchedOptions{Share: -1})
	wantArg(t, "a negative share", "Share", err)
	_, err = root.CreateNode(&SchedOptions{MaxMbps: -1})
	wantArg(t, "a negative rate", "MaxMbps", err)
	var l *ibv.LimitError
	if err := leaf.Modify(&SchedOptions{MaxMbps: math.MaxUint32 + 1}); !errors.As(err, &l) {
		t.Errorf("a rate of 33 bits: %v", err)
	}

	pd := must(dev.AllocPD())(t)
	cq := must(dev.CreateCQ(4, &ibv.CQOptions{DataPath: ibv.DataPathOps}))(t)
	rc := must(pd.CreateQP(cq, cq, nil))(t)
	ud := must(pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.UD}))(t)
	ok(t, ScheduleQP(rc, leaf, other))
	if got := lastArgs(t); got[0] != int(leaf.handle) || got[1] != int(other.handle) {
		t.Errorf("a QP was put on %v, want %v and %v", got, leaf.handle, other.handle)
	}
	ok(t, ScheduleQP(ud, nil, nil))
	if got := lastArgs(t); got[0] != 0 || got[1] != 0 {
		t.Errorf("a QP was put on %v, want none", got)
	}
	wantArg(t, "answers of UD", "answer", ScheduleQP(ud, leaf, other))
	wantArg(t, "no QP", "qp", ScheduleQP(nil, leaf, nil))

	const lacks = int(syscall.EOPNOTSUPP)
	fakeCall(t, "fake_lacking", uintptr(lacks))
	_, err = CreateSchedRoot(dev)
	wantUnsupported(t, "a device without the scheduler", err)
	_, err = root.CreateLeaf(nil)
	wantUnsupported(t, "a leaf of none", err)
	var s *ibv.StateError
	if err := ScheduleQP(rc, leaf, nil); !errors.As(err, &s) || s.State != ibv.StateReset {
		t.Errorf("a QP in RESET: %v", err)
	}
	if err := leaf.Close(); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("a leaf that the device keeps: %v", err)
	}
	fakeCall(t, "fake_lacking", 0)

	var busy *ibv.BusyError
	want := []string{"1 sched leaf", "1 sched node"}
	if err := root.Close(); !errors.As(err, &busy) || !slices.Equal(busy.Children, want) {
		t.Errorf("closing a root with children: %v", err)
	}
	ok(t, leaf.Close())
	ok(t, leaf.Close())
	if err := ScheduleQP(rc, leaf, nil); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("a closed leaf: %v", err)
	}
	if err := leaf.Modify(&SchedOptions{}); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("changing a closed leaf: %v", err)
	}
	ok(t, node.Close())
	if _, err := node.CreateLeaf(nil); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("a leaf of a closed node: %v", err)
	}
	for _, o := range []interface{ Close() error }{other, root, rc, ud, cq, pd} {
		ok(t, o.Close())
	}
}

func fakePacing(t *testing.T, dev *ibv.Device) {
	p := must(AllocPacketPacing(dev, []byte{9, 8, 7}, PacingDedicated))(t)
	if got := lastArgs(t); got[0] != 3 || got[1] != 9 || got[2] != 1 || p.Index() != 0x1234 || p.Device() != dev {
		t.Errorf("made of %v: index %#x", got, p.Index())
	}
	_, err := AllocPacketPacing(dev, nil, 0)
	wantArg(t, "no rate", "context", err)
	_, err = AllocPacketPacing(dev, []byte{1}, 6)
	wantArg(t, "unknown flags", "flags", err)
	var l *ibv.LimitError
	if _, err = AllocPacketPacing(dev, make([]byte, 49), 0); !errors.As(err, &l) || l.Limit != 48 {
		t.Errorf("a context of 49 bytes: %v", err)
	}
	fakeCall(t, "fake_lacking", uintptr(syscall.EPROTONOSUPPORT))
	_, err = AllocPacketPacing(dev, []byte{1}, 0)
	wantUnsupported(t, "a kernel without", err)
	fakeCall(t, "fake_lacking", 0)
	var busy *ibv.BusyError
	if err := dev.Close(); !errors.As(err, &busy) {
		t.Errorf("closing the device of an entry: %v", err)
	}
	ok(t, p.Close())
	ok(t, p.Close())
}
