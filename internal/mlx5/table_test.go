package mlx5_test

import (
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

func TestTable(t *testing.T) {
	tab := new(mlx5.Table)
	numbers := []uint32{0, 1, 4095, 4096, 4097, 0x7fffff, 0xfff000, 0xffffff}
	var qps []*mlx5.QP
	for _, n := range numbers {
		if tab.Find(n) != nil {
			t.Errorf("%#x is there", n)
		}
		q := mlx5.NewQP(n, true, nil, nil, nil)
		tab.Add(q)
		qps = append(qps, q)
	}
	for i, n := range numbers {
		if tab.Find(n) != qps[i] {
			t.Errorf("%#x is not there", n)
		}
	}
	// A number that was given again is the new QP's: the old one's removal, late, is none.
	again := mlx5.NewQP(4096, true, nil, nil, nil)
	tab.Add(again)
	tab.Remove(qps[3])
	if tab.Find(4096) != again || tab.Find(4097) != qps[4] {
		t.Error("the old QP took the new one along")
	}
	tab.Remove(again)
	tab.Remove(again)
	if tab.Find(4096) != nil || tab.Find(4097) != qps[4] {
		t.Error("the removal of 0x1000")
	}
	for _, q := range qps {
		tab.Remove(q)
	}
	tab.Remove(mlx5.NewQP(0x555555, true, nil, nil, nil)) // never was
	for _, n := range numbers {
		if tab.Find(n) != nil {
			t.Errorf("%#x is still there", n)
		}
	}
	tab.Add(qps[2]) // its page comes back
	if tab.Find(4095) != qps[2] || tab.Find(4094) != nil {
		t.Error("0xfff after its page went")
	}
}

// Pollers look up QPs while others come and go, in the same page.
func TestTableConcurrent(t *testing.T) {
	tab := new(mlx5.Table)
	stays := mlx5.NewQP(10, true, nil, nil, nil)
	tab.Add(stays)
	var wg sync.WaitGroup
	for i := range 4 {
		q := mlx5.NewQP(uint32(20+i/2*5000), true, nil, nil, nil)
		wg.Go(func() {
			for range 2000 {
				tab.Add(q)
				tab.Remove(q)
			}
		})
	}
	for range 20000 {
		if tab.Find(10) != stays {
			t.Error("a QP was lost")
			break
		}
		if q := tab.Find(5020); q != nil && q.Num != 5020 {
			t.Errorf("found %#x", q.Num)
			break
		}
	}
	wg.Wait()
	if tab.Find(20) != nil || tab.Find(5020) != nil {
		t.Error("a QP stayed")
	}
}
