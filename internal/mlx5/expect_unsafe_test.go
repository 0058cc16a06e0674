package mlx5_test

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// A completion may come before the QP whose number it has: nothing is lost, and without such a QP it is corrupt.
func TestExpect(t *testing.T) {
	d := newDevice(t, size{srqWQEs: 4, srqStride: 32, cqes: 4, cqeSize: 64})
	mu := new(spin.Lock)
	s := d.newSRQ(32, 1, mu)
	tab := new(mlx5.Table)
	cq := d.newCQ(tab)
	mu.Lock()
	if n := s.Post([]mlx5.RecvWR{{ID: 7}, {ID: 8}}); n != 2 {
		t.Fatalf("posted %d", n)
	}
	mu.Unlock()
	var wcs [2]mlx5.WC
	tab.Expect()
	d.got(qpn, 0, 0)
	for range 2 {
		if n, err := cq.Poll(wcs[:]); n != 0 || err != mlx5.ErrSuspended {
			t.Fatalf("before the QP is there: %d, %v", n, err)
		}
	}
	tab.Add(mlx5.NewQP(qpn, false, nil, nil, s))
	tab.Expected()
	if n, err := cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != 7 || wcs[0].QPN != qpn {
		t.Fatalf("after it: %d, %v, %+v", n, err, wcs[0])
	}
	d.got(qpn+1, 1, 0)
	if n, err := cq.Poll(wcs[:]); n != 0 || err == nil || err == mlx5.ErrSuspended {
		t.Errorf("of a QP that nobody expects: %d, %v", n, err)
	}
}
