package mlx5dv

import (
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// An adapter that neither schedules by elements nor paces says so.
func TestRXEScheduler(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	_, err := CreateSchedRoot(dev)
	wantUnsupported(t, "a scheduler", err)
	_, err = AllocPacketPacing(dev, []byte{0, 0, 0, 1}, 0)
	wantUnsupported(t, "packet pacing", err)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(4, nil))(t))
	qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1},
		ibv.MaskState|ibv.MaskPort|ibv.MaskPKeyIndex|ibv.MaskAccessFlags))
	wantUnsupported(t, "a QP by default", ScheduleQP(qp, nil, nil))
}
