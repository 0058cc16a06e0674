package ibv

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestSIW has what iWARP refuses without rdma_cm, and what siw would take and ignore.
func TestSIW(t *testing.T) {
	dev, err := Open(testutil.NeedSIW(t).Dev[0])
	ok(t, err)
	defer func() { ok(t, dev.Close()) }()
	pd, err := dev.AllocPD()
	ok(t, err)
	defer pd.Close()
	cq, err := dev.CreateCQ(16, nil)
	ok(t, err)
	defer cq.Close()
	newQP := func() *QP {
		qp, err := pd.CreateQP(cq, cq, nil)
		ok(t, err)
		return qp
	}
	for name, call := range map[string]func(qp *QP) error{
		"Modify to RTR": func(qp *QP) error { return qp.Modify(&QPAttr{State: StateRTR}, MaskState) },
		"Modify to RTS": func(qp *QP) error { return qp.Modify(&QPAttr{State: StateRTS}, MaskState) },
		"memory with other addresses": func(*QP) error {
			_, err := pd.RegMR(make([]byte, 4096), LocalWrite|ZeroBased)
			return err
		},
		"a window": func(*QP) error {
			_, err := pd.AllocMW(MWType2)
			return err
		},
	} {
		qp := newQP()
		if err := call(qp); !errors.Is(err, ErrNotSupported) {
			t.Errorf("%s: %v, want ErrNotSupported", name, err)
		}
		if _, err := qp.PostSend([]SendWR{{Opcode: OpSend}}); err == nil {
			t.Errorf("%s: a queue pair that is not connected sends", name)
		}
		ok(t, qp.Close())
	}
	qp := newQP()
	_, err = qp.Endpoint(1, BestGID)
	wantErr(t, err, nil, "rdma_cm")
	peer := newQP()
	if at, err := peer.Endpoint(1, 0); err == nil {
		if _, err = qp.Endpoint(1, 0); err == nil {
			wantErr(t, qp.Connect(at, nil), ErrNotSupported, "rdma_cm")
		}
	} else {
		wantErr(t, err, nil, "rdma_cm")
	}
	ok(t, peer.Close())
	ok(t, qp.Close())

	// More than siw's library has offsets for below the one that it takes for none.
	for range 40 {
		qp := newQP()
		defer qp.Close()
	}
}
