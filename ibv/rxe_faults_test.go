package ibv

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Faults pretends that libmlx5 has the faults of older releases, which docs/libmlx5.md lists.
func TestRXE_Faults(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, f := range []*level.Fault{&level.EthernetSL, &level.HighSL, &level.WQESum} {
		pretend(t, f)
	}
	s := newSide(t, 0, &CQOptions{DataPath: DataPathOps})
	qp := s.newQP(t, &QPOptions{Type: UD})
	me := must(qp.Endpoint(rxe.Port, rxe.GID))(t)
	for sl := range uint8(16) {
		av := must(qp.Address(me, &ConnectOptions{SL: sl}))(t)
		ah, err := s.pd.CreateAH(av)
		if bad := !soft(rxe) && (sl > 0 && !rxe.IB || sl > 7 && rxe.IB); bad {
			wantErr(t, err, ErrNotSupported, "service level", "rdma-core")
			continue
		}
		closing(t, must(ah, err)(t))
	}
	s.newQP(t, nil)
	t.Setenv("MLX5_QP_SIGNATURE", "0") // any value counts
	if soft(rxe) {
		s.newQP(t, nil)
		return
	}
	_, err := s.pd.CreateQP(s.cq, s.cq, nil)
	wantErr(t, err, ErrNotSupported, "MLX5_QP_SIGNATURE", "v33")
}
